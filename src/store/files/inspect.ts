/** Database files: what is at a path before a store is opened there. */
import { basename } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../../messages.ts";
import { resolveLinks, statOrUndefined } from "./paths.ts";
import { StoreError, toFileError } from "../errors.ts";

/** Suffix of the write-ahead log of an open or killed store. */
export const WAL_SUFFIX = "-wal";

/** Suffix of the index of that log, which the processes share. */
export const SHM_SUFFIX = "-shm";

/** Suffixes of all files that SQLite may keep beside a database. */
const SIDECAR_SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX, "-journal"];

/** The table of a Deno KV store, and the one that Deno creates before it. */
const TABLE = "kv";
const FIRST_TABLE = "migration_state";

/** The read version in a database header (SQLite file format, section 1.3). */
const READ_VERSION_OFFSET = 19;
const READ_VERSION_WAL = 2;

/**
 * Returns whether a path holds a Deno KV store. Returns false if one can be
 * created there: there is no file, an empty one, or a first start was
 * interrupted. It does not open the store, which would create one.
 * @throws {StoreError} if the path holds anything else, or a log that SQLite
 * would replay into the wrong database
 */
export function findStore(path: string): boolean {
  refuseForeignLog(path);
  const file = statOrUndefined(path);
  if (file === undefined) return false;
  if (file.isDirectory) throw new StoreError("directory", "it is a directory");
  // Opening a pipe to create a store in it would never return.
  if (!file.isFile) throw notAStore();
  if (file.size === 0) return false;
  const tables = tablesOf(path);
  if (tables.includes(TABLE)) return true;
  if (tables.every((table) => table === FIRST_TABLE)) return false;
  throw notAStore();
}

/** Requires a path to hold a Deno KV store. @throws {StoreError} */
export function requireStore(path: string): void {
  if (findStore(path)) return;
  const isAbsent = statOrUndefined(path) === undefined;
  throw new StoreError("missing", isAbsent ? "no such file" : "it is empty");
}

/**
 * Returns the log beside a path that does not belong to the database there, if
 * there is one. An open or killed store is in WAL mode; a missing file is not,
 * and neither is a backup.
 *
 * The log is examined first: SQLite writes the header before the log, and
 * nothing takes a live store out of WAL mode.
 */
export function foreignLogOf(path: string): string | undefined {
  const log = resolveLinks(path) + WAL_SUFFIX;
  const hasContent = (statOrUndefined(log)?.size ?? 0) > 0;
  return hasContent && !isInWalMode(path) ? log : undefined;
}

/**
 * Returns the files that SQLite would use with a database at a path. If the path
 * is a link, they are beside the real file.
 */
export function sidecarsOf(path: string): string[] {
  const real = resolveLinks(path);
  return SIDECAR_SUFFIXES.map((suffix) => real + suffix)
    .filter((sidecar) => statOrUndefined(sidecar) !== undefined);
}

/**
 * Renames the files that SQLite would use with a database, so that it uses them
 * with the database of another path.
 * @param real the database, not a link to it
 * @returns their new paths
 */
export function moveSidecars(real: string, other: string): string[] {
  return sidecarsOf(real).map((sidecar) => {
    const moved = other + sidecar.slice(real.length);
    Deno.renameSync(sidecar, moved);
    return moved;
  });
}

/**
 * Opens a database without changing what is beside it. One with a log is opened
 * read-only, since closing it would write the log of a killed service into it,
 * or delete the log if the database is corrupt. Any other one is not: closing it
 * removes the files that SQLite may create beside it.
 */
export function openToRead(path: string): DatabaseSync {
  return new DatabaseSync(path, { readOnly: sidecarsOf(path).length > 0 });
}

/**
 * Takes a copy of a store out of WAL mode: it is one file, and a log beside it
 * is known to belong to another database.
 */
export function leaveWalMode(path: string): void {
  using copy = new DatabaseSync(path);
  copy.exec("PRAGMA journal_mode = DELETE");
}

function refuseForeignLog(path: string): void {
  const log = foreignLogOf(path);
  if (log === undefined) return;
  if ((statOrUndefined(path)?.size ?? 0) > 0) {
    throw new StoreError("foreign log", `${log} belongs to another database`);
  }
  throw new StoreError(
    "missing database",
    `${basename(path)} is missing or empty, but its log is here: ${log}`,
  );
}

function notAStore(): StoreError {
  return new StoreError("not a store", "not a Deno KV store");
}

/** Returns whether a database is in WAL mode; a missing one is not. */
function isInWalMode(path: string): boolean {
  const header = new Uint8Array(READ_VERSION_OFFSET + 1);
  try {
    // With limited permissions, Deno 2.6 opens no link that leads nowhere.
    using file = Deno.openSync(resolveLinks(path));
    file.readSync(header);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw toFileError(error);
  }
  return header[READ_VERSION_OFFSET] === READ_VERSION_WAL;
}

function tablesOf(path: string): string[] {
  try {
    using database = openToRead(path);
    return database.prepare("SELECT name FROM sqlite_master").all()
      .map(({ name }) => String(name));
  } catch (error) {
    if (/not a database/.test(errorMessage(error))) throw notAStore();
    // Opening the store reports other errors, such as a lock.
    return [TABLE];
  }
}
