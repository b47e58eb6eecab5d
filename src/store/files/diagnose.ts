import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../../messages.ts";
import { resolveLinks } from "./paths.ts";
import type { StoreLocation } from "../location.ts";
import { isLocked, StoreError, toFileError, toStoreError } from "../errors.ts";

/** SQLite's messages for a file that it may not open or write. */
const DENIED = /unable to open database file|readonly database/;

/** Converts an error of opening a store, which is closed again. */
export function toOpenError(
  error: unknown,
  location: StoreLocation,
): StoreError {
  if (location.kind === "server") return toStoreError(error, location);
  const path = resolveLinks(location.path);
  const cause = DENIED.test(errorMessage(error))
    ? findDenial(path)
    : error instanceof Deno.errors.TimedOut
    ? findLock(path)
    : undefined;
  return toStoreError(cause ?? error, location);
}

/**
 * Finds out why SQLite cannot open a database, which it does not report: opens
 * the file, and creates one in its directory, as SQLite does. Not while the store
 * is open: closing any descriptor of its file releases SQLite's locks.
 */
function findDenial(path: string): StoreError | undefined {
  const other = `${path}.${crypto.randomUUID()}`;
  try {
    Deno.openSync(path, { read: true, write: true }).close();
    Deno.openSync(other, { write: true, createNew: true }).close();
    Deno.removeSync(other);
    return undefined;
  } catch (error) {
    const { problem, message } = toFileError(error);
    const what = problem === "denied" ? " on the file or its directory" : "";
    return new StoreError(problem, message + what);
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
