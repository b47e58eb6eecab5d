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
  /** There is no database, but its log. */
  | "missing database"
  /** The log of another database is beside the file. */
  | "foreign log"
  | "denied"
  /** The file system is mounted read-only. */
  | "read-only"
  /** Deno does not open files at this path, such as below /dev. */
  | "special path"
  | "corrupt"
  | "full"
  /** Another process has the store open. */
  | "in use"
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

/** What to do about a corrupt database. */
export const CORRUPT = "the database is corrupt: restore a backup";

/**
 * Messages of SQLite, with their problem, and a clearer message and a remedy,
 * which the log of a running service needs as well.
 */
const FILE_PROBLEMS: readonly [RegExp, StoreProblem, string][] = [
  [/malformed/, "corrupt", CORRUPT],
  [/database or disk is full/, "full", "the disk is full: free some space"],
  [LOCKED, "in use", "database is locked by another process"],
];

/** Numbers of errors in Linux and macOS: ENOMEM, ENFILE, EMFILE, ENOSPC. */
const PASSING_OS_ERROR = /\(os error (12|23|24|28)\)/;

/** EROFS. */
const READ_ONLY_OS_ERROR = /\(os error 30\)/;

/** Returns whether an operation failed because another process has the lock. */
export function isLocked(error: unknown): boolean {
  return LOCKED.test(errorMessage(error));
}

/** Converts an error of Deno's file system to a StoreError. */
export function toFileError(error: unknown): StoreError {
  const message = errorMessage(error);
  if (error instanceof Deno.errors.NotCapable) {
    return new StoreError("special path", fileProblem(error));
  }
  if (READ_ONLY_OS_ERROR.test(message)) {
    return new StoreError("read-only", "the file system is read-only");
  }
  const isPassing = PASSING_OS_ERROR.test(message);
  return new StoreError(isPassing ? "other" : "denied", fileProblem(error));
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
