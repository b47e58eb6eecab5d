import { errorMessage, fileProblem, toLine, truncate } from "../messages.ts";
import type { StoreLocation } from "./location.ts";

/** Why a store cannot be used. */
export type StoreProblem =
  /** There is no file. */
  | "missing"
  /** There is no directory for the file. */
  | "no directory"
  | "directory"
  | "not a store"
  /** The log or journal of another database is beside the file. */
  | "foreign log"
  | "denied"
  /** Deno does not open files at this path, such as below /dev. */
  | "special path"
  | "corrupt"
  /** A newer Deno wrote values that this one cannot read. */
  | "newer format"
  /** A KV Connect server cannot be used. */
  | "server"
  | "other";

/** The store cannot be used. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly problem: StoreProblem;

  /** @param message what is wrong, without the name of the store */
  constructor(problem: StoreProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/** Maximum length of a message of a KV Connect server, in UTF-16 code units. */
const SERVER_MESSAGE_CHARS_MAX = 200;

/** Deno's message for a value that a newer Deno wrote. */
const NEWER_FORMAT = /could not deserialize/;

/** SQLite's message while another process has the lock; nothing was written. */
const LOCKED = /database is locked/;

/** Messages of SQLite, with their problem and a clearer message. */
const FILE_PROBLEMS: readonly [RegExp, StoreProblem, string][] = [
  [
    /unable to open database file|read-?only (database|file system)|permission denied/i,
    "denied",
    "permission denied on the file or its directory",
  ],
  [/malformed/, "corrupt", "the database is corrupt"],
];

/** Returns whether an operation failed because another process has the lock. */
export function isLocked(error: unknown): boolean {
  return LOCKED.test(errorMessage(error));
}

/** Converts an error of Deno's file system to a StoreError. */
export function toFileError(error: unknown): StoreError {
  const problem = error instanceof Deno.errors.NotCapable
    ? "special path"
    : "denied";
  return new StoreError(problem, fileProblem(error));
}

/**
 * Converts an error of Deno or SQLite to a StoreError. The message of a KV
 * Connect server can contain anything, even the token, so the token is masked and
 * the message truncated and put on one line.
 */
export function toStoreError(
  error: unknown,
  location: StoreLocation,
): StoreError {
  if (error instanceof StoreError) return error;
  if (error instanceof Deno.errors.NotCapable) return toFileError(error);
  const message = errorMessage(error);
  if (NEWER_FORMAT.test(message)) {
    return new StoreError("newer format", "a newer Deno stored plants in it");
  }
  if (location.kind === "server") {
    const masked = toLine(message.replaceAll(location.token, "[token]"));
    return new StoreError("server", truncate(masked, SERVER_MESSAGE_CHARS_MAX));
  }
  for (const [pattern, problem, words] of FILE_PROBLEMS) {
    if (pattern.test(message)) return new StoreError(problem, words);
  }
  return new StoreError("other", message);
}
