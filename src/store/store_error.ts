import { FileError } from "../files/file_error.ts";
import { ProblemError } from "../files/problem.ts";
import { errorMessage, toLine, truncate } from "../messages.ts";
import { DatabaseError, toDatabaseError } from "./files/database_error.ts";
import type { StoreLocation } from "./location.ts";

/** Maximum length of a message of a KV Connect server, in UTF-16 code units. */
const SERVER_MESSAGE_CHARS_MAX = 200;

/** A KV Connect server cannot be used. */
export class ServerError extends ProblemError<"server"> {
  constructor(message: string) {
    super([["server", { isPassing: true }]], "server", message);
  }
}

/** Why a store cannot be used. */
export type StoreError = FileError | DatabaseError | ServerError;

/**
 * Converts an error of a store. The message of a KV Connect server can contain
 * anything, even the token, so the token is masked and the message truncated and
 * put on one line.
 */
export function toStoreError(
  error: unknown,
  location?: StoreLocation,
): StoreError {
  if (isStoreError(error)) return error;
  const converted = toDatabaseError(error);
  const isOfServer = location?.kind === "server" &&
    converted.problem !== "newer format";
  if (!isOfServer) return converted;
  const masked = toLine(
    errorMessage(error).replaceAll(location.token, "[token]"),
  );
  return new ServerError(truncate(masked, SERVER_MESSAGE_CHARS_MAX));
}

/**
 * Returns whether an operation failed because of damage, so that it fails again.
 * Values that are damaged look like those of a newer Deno.
 */
export function isDamaged({ problem }: StoreError): boolean {
  return problem === "corrupt" || problem === "newer format";
}

/** Returns whether an error is one of a store, and not a programmer error. */
export function isStoreError(error: unknown): error is StoreError {
  return error instanceof FileError || error instanceof DatabaseError ||
    error instanceof ServerError;
}
