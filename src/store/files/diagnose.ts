import { DatabaseSync } from "node:sqlite";
import { FileError, isLocked, toFileError } from "../../files/file_error.ts";
import { resolveLinks } from "../../files/file_system.ts";

/** Messages of SQLite and Deno KV for a file that they may not open or write. */
const UNSPECIFIC = /unable to open database file|read-?only database/;

/**
 * Converts an error of opening a database, which is closed again, and finds out
 * what SQLite does not report.
 */
export function diagnose(error: unknown, path: string): FileError {
  const real = resolveLinks(path);
  if (error instanceof Deno.errors.TimedOut) {
    return toFileError(findLock(real) ?? error);
  }
  const cause = UNSPECIFIC.test(String(error)) ? findDenial(real) : undefined;
  return cause ?? toFileError(error);
}

/**
 * Opens the file, and creates one in its directory, as SQLite does. Not while the
 * database is open: closing any descriptor of its file releases SQLite's locks.
 */
function findDenial(path: string): FileError | undefined {
  const other = `${path}.${crypto.randomUUID().slice(0, 8)}`;
  try {
    Deno.openSync(path, { read: true, write: true }).close();
    Deno.openSync(other, { write: true, createNew: true }).close();
    Deno.removeSync(other);
    return undefined;
  } catch (error) {
    const { problem, message } = toFileError(error);
    const what = problem === "denied" ? " on the file or its directory" : "";
    return new FileError(problem, message + what);
  }
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
