/** Finds out what SQLite and Deno KV do not report. */
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FileError, toFileError } from "../../files/file_error.ts";
import {
  type DatabaseError,
  isLocked,
  isNoAnswer,
  toDatabaseError,
} from "./database_error.ts";
import { filesOf } from "./inspect.ts";

/** Messages of SQLite and Deno KV for a file that they may not open or write. */
const UNSPECIFIC = /unable to open database file|read-?only database/;

/**
 * Requires that the files of a store can be read and written: Deno would panic
 * if it cannot write one that is beside a database. Not while the database is
 * open: closing any descriptor of its file releases SQLite's locks.
 * @throws {FileError} names the file that cannot, or the directory
 */
export function requireUsable(path: string): void {
  let files: string[];
  try {
    files = filesOf(path);
  } catch (error) {
    throw named(error, dirname(path));
  }
  for (const file of files) {
    try {
      Deno.openSync(file, { read: true, write: true }).close();
    } catch (error) {
      // Another process has closed the store meanwhile.
      if (error instanceof Deno.errors.NotFound) continue;
      throw named(error, file);
    }
  }
}

/** Converts an error of opening a database, which is closed again. */
export function diagnose(
  error: unknown,
  path: string,
): DatabaseError | FileError {
  if (isNoAnswer(error)) {
    return toDatabaseError(findLock(path) ?? error);
  }
  const cause = UNSPECIFIC.test(String(error)) ? findDenial(path) : undefined;
  return toDatabaseError(cause ?? error);
}

/** Opens the files, and creates one in the directory, as SQLite does. */
function findDenial(path: string): unknown {
  const other = `${path}.${crypto.randomUUID().slice(0, 8)}`;
  try {
    requireUsable(path);
    Deno.openSync(other, { write: true, createNew: true }).close();
    Deno.removeSync(other);
    return undefined;
  } catch (error) {
    return error instanceof FileError ? error : named(error, dirname(path));
  }
}

/** Converts an error of a file or directory, and names it. */
function named(error: unknown, path: string): FileError {
  const { problem, message } = toFileError(error);
  return new FileError(problem, `${message}: ${path}`);
}

/**
 * Returns the error if another process has locked a database. Deno waits for the
 * lock when it opens one, without a limit, and does not report it.
 */
function findLock(path: string): unknown {
  try {
    using database = new DatabaseSync(path);
    database.exec("BEGIN IMMEDIATE; ROLLBACK");
  } catch (error) {
    if (isLocked(error)) return error;
  }
  return undefined;
}
