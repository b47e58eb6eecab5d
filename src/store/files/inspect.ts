/** Database files: what is at a path before a store is opened there. */
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StoreError, toStoreError } from "../../store_error.ts";
import { statOrUndefined } from "./file_system.ts";

/** Suffix of the write-ahead log of an open or killed store. */
export const WAL_SUFFIX = "-wal";

/** Suffix of the index of that log, which the processes share. */
export const SHM_SUFFIX = "-shm";

/** Suffixes of all files that SQLite may keep beside a database. */
export const SIDECAR_SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX, "-journal"];

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
 * What is at a path. `store`: a Deno KV store. `nothing`: no file. `empty`: an
 * empty file, or the start of a store, as an interrupted first start leaves it.
 */
export type Found = "store" | "nothing" | "empty";

/**
 * Returns what is at a path. It does not open a store with Deno, which would
 * create one.
 * @throws {StoreError} if anything else is there, a corrupt store, or a log that
 * SQLite would replay into the wrong database
 * @throws the error of Deno if the path cannot be examined
 */
export function inspect(path: string): Found {
  refuseForeignLog(path);
  const file = statOrUndefined(path);
  if (file === undefined) return "nothing";
  if (file.isDirectory) throw new StoreError("path", "it is a directory");
  // Opening a pipe to create a store in it would never return.
  if (!file.isFile) throw new StoreError("path", NOT_A_STORE);
  if (file.size === 0) return "empty";
  return inspectTables(path);
}

/** Requires a path to hold a store. @throws its problem if it does not */
export function requireStore(path: string): void {
  const found = inspect(path);
  if (found === "store") return;
  if (found === "nothing") throw new StoreError("path", "no such file");
  throw new StoreError("path", "it is empty");
}

/**
 * Requires that the files of a store can be read and written: Deno would panic
 * if it cannot write one that is beside a database. Do not call it while this
 * process has the database open: closing any descriptor of its file releases
 * SQLite's locks.
 * @throws {StoreError} names the file that cannot, or the directory
 */
export function requireUsable(path: string): void {
  const files = filesOf(path);
  for (const file of files) {
    try {
      Deno.openSync(file, { read: true, write: true }).close();
    } catch (error) {
      // Another process has closed the store meanwhile.
      if (error instanceof Deno.errors.NotFound) continue;
      throw named(error, file);
    }
  }
  // SQLite creates a log beside a closed database.
  if (files.length === 1) requireWritable(dirname(path));
}

function requireWritable(directory: string): void {
  try {
    Deno.removeSync(Deno.makeTempFileSync({ dir: directory }));
  } catch (error) {
    throw named(error, directory);
  }
}

/** Converts an error of a file or directory, and names it. */
function named(error: unknown, path: string): StoreError {
  const { kind, message } = toStoreError(error);
  return new StoreError(kind, `${message}: ${path}`);
}

/** Returns the files of a store that exist: what SQLite would keep there. */
export function filesOf(path: string): string[] {
  return [path, ...SIDECAR_SUFFIXES.map((suffix) => path + suffix)]
    .filter((file) => statOrUndefined(file) !== undefined);
}

/**
 * Opens a database without changing what is beside it. One with a log is opened
 * read-only, since closing it would write the log of a killed service into it,
 * or delete the log if the database is corrupt. Any other one is not: closing it
 * removes the files that SQLite may create beside it, if it can be written.
 */
export function openToRead(path: string): DatabaseSync {
  return new DatabaseSync(path, { readOnly: filesOf(path).length > 1 });
}

/**
 * Refuses a log beside a path that does not belong to the database there. An open
 * or killed store is in WAL mode; a missing file is not, and neither is a backup.
 *
 * The log is examined first: SQLite writes the header before the log, and
 * nothing takes a live store out of WAL mode.
 */
function refuseForeignLog(path: string): void {
  const log = path + WAL_SUFFIX;
  const hasContent = (statOrUndefined(log)?.size ?? 0) > 0;
  if (!hasContent || isInWalMode(path)) return;
  throw new StoreError(
    "foreign log",
    `${log} belongs to another database, or to one that is gone`,
  );
}

/** Returns whether a database is in WAL mode; a missing one is not. */
export function isInWalMode(path: string): boolean {
  // Opening a pipe would never return.
  if (!statOrUndefined(path)?.isFile) return false;
  using file = Deno.openSync(path);
  file.seekSync(READ_VERSION_OFFSET, Deno.SeekMode.Start);
  const version = new Uint8Array(1);
  file.readSync(version);
  return version[0] === READ_VERSION_WAL;
}

/** Inspects the content of a database; reads what Deno reads at its opening. */
function inspectTables(path: string): Found {
  let tables: string[];
  try {
    using database = openToRead(path);
    const objects = database.prepare("SELECT type, name FROM sqlite_master");
    const all = objects.all();
    // With them, what is stored could differ from what was written.
    if (all.some(({ type }) => type === "trigger" || type === "view")) {
      throw new StoreError("path", NOT_A_STORE);
    }
    tables = all.map(({ name }) => String(name));
    if (tables.includes(TABLE)) {
      for (const rows of READ_BY_DENO) {
        const other = database.prepare(`SELECT 1 FROM ${rows} LIMIT 1`).get();
        if (other !== undefined) throw new StoreError("corrupt");
      }
      return "store";
    }
  } catch (error) {
    const converted = toStoreError(error);
    // Opening the store reports other errors, such as a lock.
    if (["path", "corrupt"].includes(converted.kind)) throw converted;
    return "store";
  }
  if (tables.every((table) => table === FIRST_TABLE)) return "empty";
  throw new StoreError("path", NOT_A_STORE);
}
