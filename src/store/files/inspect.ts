/** Database files: what is at a path before a store is opened there. */
import { DatabaseSync } from "node:sqlite";
import { corrupt, StoreError, toStoreError } from "../store_error.ts";

/** Suffix of the write-ahead log of an open or killed store. */
export const WAL_SUFFIX = "-wal";

/** Suffix of the index of the write-ahead log, which the processes share. */
export const SHM_SUFFIX = "-shm";

/** Suffix of the rollback journal of a database that is not in WAL mode. */
const JOURNAL_SUFFIX = "-journal";

/** Suffixes of the files that SQLite keeps beside a database, and may delete. */
const SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX, JOURNAL_SUFFIX];

/** The table of a Deno KV store, and the one that Deno creates before it. */
const TABLE = "kv";
const FIRST_TABLE = "migration_state";

const NOT_A_STORE = "not a Deno KV store";

/**
 * What Deno reads when it opens a store, in its queue and its index of
 * expirations: if that is corrupt, or has another type, it panics.
 */
const READ_BY_DENO = [
  "queue WHERE typeof(ts) <> 'integer' ORDER BY ts",
  "queue_running WHERE typeof(id) <> 'text' ORDER BY deadline",
  "kv WHERE expiration_ms >= 0 AND typeof(expiration_ms) <> 'integer'",
];

/** The read version in a database header (SQLite file format, section 1.3). */
const READ_VERSION_OFFSET = 19;
const READ_VERSION_WAL = 2;

/**
 * What is at a path before a store is opened. `empty`: an empty file or the start of
 * a store, as an interrupted first start leaves it.
 */
export type PathContent = "nothing" | "empty" | "store";

/**
 * Returns the information about a file, or about a link itself, or `undefined` if
 * there is none.
 * @throws the error of the runtime if the path cannot be examined
 */
export function lstatOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/**
 * Returns what is at a path. Throws for anything that is not a store, because Deno
 * would panic there, create a store, or replay a write-ahead log into the wrong
 * database. Do not call it while this process has the database open: closing any
 * descriptor of its file releases SQLite's locks.
 * @throws {StoreError} if something other than a store is there, if the store is
 * corrupt or cannot be written, or if a write-ahead log belongs to another database
 * @throws the error of the runtime if a file cannot be examined
 */
export function inspect(path: string): PathContent {
  const suffix = SUFFIXES.find((suffix) => path.endsWith(suffix));
  if (suffix !== undefined) {
    throw new StoreError(
      "not a store",
      `SQLite keeps its own files under names that end with ${suffix}`,
    );
  }
  // Another process may be creating the store, and creates the database first. So the
  // database is examined last: otherwise, the other files could be found without it.
  const journal = examine(path + JOURNAL_SUFFIX);
  const wal = examine(path + WAL_SUFFIX);
  const index = examine(path + SHM_SUFFIX);
  const database = examine(path);
  if (wal !== undefined && wal.size > 0) {
    // An open or killed store is in WAL mode.
    const isItsWal = database?.isFile && isInWalMode(path);
    if (!isItsWal) throw foreignLog(path + WAL_SUFFIX);
  }
  if (database === undefined) {
    if (journal !== undefined) throw foreignLog(path + JOURNAL_SUFFIX);
    return "nothing";
  }
  // Deno would wait for ever on a pipe. SQLite takes a file of one byte for an empty
  // one.
  if (!database.isFile || database.size === 1) {
    throw new StoreError("not a store", NOT_A_STORE);
  }
  const isAlone = [journal, wal, index].every((it) => it === undefined);
  return inspectTables(path, isAlone);
}

/**
 * Returns the information about a file if it exists. Requires that the file can be
 * read and written: Deno panics if it cannot write one beside a database.
 * @throws {StoreError} names the file
 */
function examine(file: string): Deno.FileInfo | undefined {
  const found = lstatOrUndefined(file);
  if (found === undefined) return undefined;
  try {
    Deno.openSync(file, { read: true, write: true }).close();
    return found;
  } catch (error) {
    // Another process has closed the store meanwhile, or this is a link to nothing.
    if (error instanceof Deno.errors.NotFound) return lstatOrUndefined(file);
    const { kind, message } = toStoreError(error);
    throw new StoreError(kind, `${message}: ${file}`);
  }
}

function foreignLog(file: string): StoreError {
  return new StoreError(
    "foreign log",
    `${file} belongs to another database, or to one that is gone`,
  );
}

function isInWalMode(path: string): boolean {
  using file = Deno.openSync(path);
  const version = new Uint8Array(1);
  file.seekSync(READ_VERSION_OFFSET, Deno.SeekMode.Start);
  file.readSync(version);
  return version[0] === READ_VERSION_WAL;
}

/**
 * Inspects the content of a database, and what Deno reads when it opens the store.
 * The files beside the database do not change.
 */
function inspectTables(path: string, isAlone: boolean): PathContent {
  try {
    // A database alone is opened writable, so that SQLite can remove the WAL and the
    // index that it creates here. Otherwise it is opened read-only, because closing a
    // writable one would copy or delete the WAL that is there.
    using database = new DatabaseSync(path, { readOnly: !isAlone });
    const tables = database.prepare("SELECT name FROM sqlite_master").all()
      .map(({ name }) => name);
    if (tables.every((table) => table === FIRST_TABLE)) return "empty";
    if (!tables.includes(TABLE)) {
      throw new StoreError("not a store", NOT_A_STORE);
    }
    for (const rows of READ_BY_DENO) {
      const other = database.prepare(`SELECT 1 FROM ${rows} LIMIT 1`).get();
      if (other !== undefined) throw corrupt();
    }
  } catch (error) {
    const converted = toStoreError(error);
    const { kind } = converted;
    if (kind === "not a store" || kind === "corrupt") throw converted;
    // Beside a journal, a read-only connection is denied: it cannot roll that back.
    if (kind === "denied" && isAlone) throw converted;
    // Opening the store reports any other error, such as a lock.
  }
  return "store";
}
