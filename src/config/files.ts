import { errorMessage } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { parseTokens, SOME_TOKENS } from "./values.ts";

/** Reads a file. @throws {OperatorError} if this is impossible */
export function readFile(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new OperatorError(`cannot read ${path}: ${errorMessage(error)}`);
  }
}

/** Reads a token file, one token per line. @throws {OperatorError} */
export function readTokenFile(path: string): readonly string[] {
  const tokens = parseTokens(readFile(path), "\n");
  if (tokens !== undefined) return tokens;
  throw new OperatorError(`${path}: expected ${SOME_TOKENS}, one per line`);
}
