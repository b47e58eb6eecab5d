import { ID_MAX, ID_MIN } from "../limits.ts";
import { OperatorError } from "../operator_error.ts";

/** Reads an id of a command line. @throws {OperatorError} if it is invalid */
export function readId(text: string): bigint {
  const id = /^-?\d{1,40}$/.test(text) ? BigInt(text) : undefined;
  if (id !== undefined && id >= ID_MIN && id <= ID_MAX) return id;
  throw new OperatorError(
    `expected an id from ${ID_MIN} to ${ID_MAX}, got "${text}"`,
  );
}
