import { fileFailure, OperatorError } from "../operator_error.ts";
import { parseTokens, TOKENS_EXPECTED } from "./values.ts";

/** Reads the file of a setting. @throws {OperatorError} if this is impossible */
export function readFile(setting: string, path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw fileFailure(`${setting}: cannot read ${path}`, error);
  }
}

/** Reads a file of tokens: one per line, empty lines aside. @throws {OperatorError} */
export function readTokens(setting: string, path: string): readonly string[] {
  const tokens = parseTokens(readFile(setting, path).trim().split(/\s*\n\s*/));
  if (tokens !== undefined) return tokens;
  throw new OperatorError(
    `${setting}: expected ${TOKENS_EXPECTED}, one per line, in ${path}`,
  );
}
