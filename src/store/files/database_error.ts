import { FileError, toFileError } from "../../files/file_error.ts";
import {
  findProblem,
  ProblemError,
  type ProblemTable,
} from "../../files/problem.ts";

/** Every problem of a database, except those of any file. */
const TABLE = [
  ["not a store", { pattern: /not a database/, words: "not a Deno KV store" }],
  /** There is no database, but its log. */
  ["missing database", {}],
  /** The log of another database is beside the file. */
  ["foreign log", {}],
  ["corrupt", {
    // Deno creates tables that exist if it finds no version in their place. The
    // names are of keys that it cannot decode.
    pattern:
      /^(InvalidData|UnexpectedEof)\b|malformed|Invalid column type|table \w+ already exists in/,
    // SQLite reports a failed read of an intact database in the same way.
    words: "the database is corrupt, or its disk fails",
  }],
  /** A file of the open store was deleted, moved or replaced. */
  ["lost", {}],
  /** A newer Deno wrote values that this one cannot read, or they are damaged. */
  ["newer format", {
    pattern: /could not deserialize|value encoding \d+ is unknown/,
    words: "a newer Deno stored plants in it, or they are damaged",
  }],
  /** Nothing was written. */
  ["locked", {
    pattern: /database is locked/,
    // SQLite reports a file system without locks in the same way.
    words: "another process has locked it, or its file system has no locks",
    isPassing: true,
  }],
  /** An operation took too long, which may also be one of a server. */
  ["no answer", { isPassing: true }],
] as const satisfies ProblemTable;

/** Why a database cannot be used, if not because of its file. */
export type DatabaseProblem = typeof TABLE[number][0];

/** A database cannot be used. */
export class DatabaseError extends ProblemError<DatabaseProblem> {
  constructor(problem: DatabaseProblem, message?: string) {
    super(TABLE, problem, message);
  }
}

/** Converts an error of SQLite or of Deno KV. */
export function toDatabaseError(error: unknown): DatabaseError | FileError {
  if (error instanceof DatabaseError || error instanceof FileError) {
    return error;
  }
  const found = findProblem(TABLE, error);
  return found ? new DatabaseError(...found) : toFileError(error);
}

/** Returns whether an operation failed because another process has the lock. */
export function isLocked(error: unknown): boolean {
  return toDatabaseError(error).problem === "locked";
}

/** Returns whether an operation failed because it took too long. */
export function isNoAnswer(error: unknown): boolean {
  return error instanceof DatabaseError && error.problem === "no answer";
}
