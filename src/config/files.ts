import { fileFailure, OperatorError } from "../operator_error.ts";
import { parseTokens, TOKENS_EXPECTED } from "./values.ts";

/** Reads a file. @throws {OperatorError} if this is impossible */
export function readFile(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw fileFailure("read", path, error);
  }
}

/** Reads a token file: one per line, empty lines aside. @throws {OperatorError} */
export function readTokenFile(path: string): readonly string[] {
  const tokens = parseTokens(readFile(path).trim().split(/\s*\n\s*/));
  if (tokens !== undefined) return tokens;
  throw new OperatorError(`${path}: expected ${TOKENS_EXPECTED}, one per line`);
}
