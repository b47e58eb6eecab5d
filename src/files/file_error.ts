import { errorMessage } from "../messages.ts";

/** A kind of problem of a store, or of any other file. */
interface Row {
  /** Matches the name and the message of an error of Deno or SQLite. */
  readonly pattern?: RegExp;
  /** Defaults to the message of the error. */
  readonly words?: string;
  /** Whether it can pass without a change of the configuration or the files. */
  readonly isPassing?: true;
}

/** Every problem. The first pattern that matches an error counts. */
const TABLE = [
  ["missing", { pattern: /^Not(Found|ADirectory)\b/, words: "no such file" }],
  /** There is no directory for a new file. */
  ["no directory", {}],
  ["directory", { pattern: /^IsADirectory\b/, words: "it is a directory" }],
  /** Another file has the name of a new one. */
  ["exists", { words: "it already exists" }],
  /** A path below /dev, /proc or /sys, or not a regular file. */
  ["special path", {
    pattern: /^NotCapable: Requires all access/,
    words: "Deno opens no special file, and none in /dev, /proc and /sys",
  }],
  /** The path is too long, or its links form a loop. */
  ["bad path", { pattern: /name too long|levels of symbolic links/ }],
  ["no links", { words: "its file system has no hard links" }],
  ["read-only", {
    pattern: /Read-only file system/,
    words: "the file system is read-only",
  }],
  ["denied", { pattern: /^PermissionDenied\b/, words: "permission denied" }],
  ["not a store", { pattern: /not a database/, words: "not a Deno KV store" }],
  /** There is no database, but its log. */
  ["missing database", {}],
  /** There is a database, but its log is gone. */
  ["missing log", {}],
  /** The path is a link now, and the log of its database is beside it. */
  ["log beside link", {}],
  /** The log of another database is beside the file. */
  ["foreign log", {}],
  /** Plants that may not be in the store are in a file beside it. */
  ["saved plants", {}],
  ["corrupt", {
    // Deno creates tables that exist if it finds no version in their place. The
    // names are of keys that it cannot decode.
    pattern:
      /^(InvalidData|UnexpectedEof)\b|malformed|Invalid column type|table \w+ already exists in/,
    words: "the database is corrupt: restore a backup",
  }],
  /** A newer Deno wrote values that this one cannot read, or they are damaged. */
  ["newer format", {
    pattern: /could not deserialize|value encoding \d+ is unknown/,
    words: "a newer Deno stored plants in it, or they are damaged",
  }],
  ["full", {
    pattern: /disk is full|No space left|quota exceeded/,
    words: "the disk is full: free some space",
    isPassing: true,
  }],
  /** Another process has the store open, and nothing was written. */
  ["in use", {
    pattern: /database is locked/,
    words: "database is locked by another process",
    isPassing: true,
  }],
  /** A KV Connect server cannot be used. */
  ["server", { isPassing: true }],
  ["other", { isPassing: true }],
] as const satisfies readonly (readonly [string, Row])[];

/** Why a store, or any other file, cannot be used. */
export type FileProblem = typeof TABLE[number][0];

const ROWS: ReadonlyMap<FileProblem, Row> = new Map(TABLE);

/** A store, or any other file, cannot be used. */
export class FileError extends Error {
  override readonly name = "FileError";
  readonly problem: FileProblem;
  /** The file to act on, if it is not the store. */
  readonly file: string | undefined;

  /** @param message what is wrong, without the name of the store */
  constructor(problem: FileProblem, message?: string, file?: string) {
    super(message ?? ROWS.get(problem)?.words);
    this.problem = problem;
    this.file = file;
  }

  /** Whether it can pass without a change of the configuration or the files. */
  get isPassing(): boolean {
    return ROWS.get(this.problem)?.isPassing ?? false;
  }
}

/**
 * Returns whether an operation failed because of damage, so that it fails again.
 * Values that are damaged look like those of a newer Deno.
 */
export function isDamaged(error: unknown): boolean {
  const { problem } = toFileError(error);
  return problem === "corrupt" || problem === "newer format";
}

/** Returns whether an operation failed because another process has the lock. */
export function isLocked(error: unknown): boolean {
  return toFileError(error).problem === "in use";
}

/** Converts an error of Deno's file system or of SQLite. */
export function toFileError(error: unknown): FileError {
  if (error instanceof FileError) return error;
  // Deno appends the path, which may contain anything.
  const text = String(error).replace(/ \(os error \d+\).*/s, "");
  for (const [problem, { pattern, words }] of ROWS) {
    if (pattern?.test(text)) {
      return new FileError(problem, words ?? errorMessage(error));
    }
  }
  return new FileError("other", errorMessage(error));
}
