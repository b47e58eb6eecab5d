/** Database files: what is at a path before a store is opened there. */
import { basename, dirname, isAbsolute, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage } from "../messages.ts";
import { StoreError, toFileError } from "./store_error.ts";

/** Suffix of the write-ahead log of an open database. */
export const LOG_SUFFIX = "-wal";

/** Suffix of a rollback journal. This program creates none beside a store. */
const JOURNAL_SUFFIX = "-journal";

/** Suffixes of all files that SQLite may keep beside a database. */
export const SIDECAR_SUFFIXES = [LOG_SUFFIX, "-shm", JOURNAL_SUFFIX];

/** The table of a Deno KV store, and the one that Deno creates before it. */
const TABLE = "kv";
const FIRST_TABLE = "migration_state";

/** The read version in a database header (SQLite file format, section 1.3). */
const READ_VERSION_OFFSET = 19;
const READ_VERSION_WAL = 2;

/** Maximum symbolic links to follow, as in Linux. */
const LINKS_MAX = 40;

/**
 * Checks that a path holds a Deno KV store, without opening it: opening would
 * create one.
 * @throws {StoreError}
 */
export function checkStoreExists(path: string): void {
  const tables = tablesAt(path);
  if (tables === undefined) throw new StoreError("missing", "no such file");
  if (!tables.includes(TABLE)) throw notAStore();
}

/**
 * Checks that a path holds a Deno KV store or an empty database, or that a store
 * can be created there without losing anything.
 * @returns whether there is a file
 * @throws {StoreError}
 */
export function checkStoreUsable(path: string): boolean {
  const tables = tablesAt(path);
  if (tables === undefined) {
    const directory = dirname(resolveLinks(path));
    if (statOrUndefined(directory)?.isDirectory) return false;
    throw new StoreError("no directory", `no directory ${directory}`);
  }
  // A first start of version 1.0.0 that was interrupted left the first table.
  const isUsable = tables.includes(TABLE) ||
    tables.every((table) => table === FIRST_TABLE);
  if (!isUsable) throw notAStore();
  return true;
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
 * Puts a database into WAL mode, as an open store is. SQLite itself would do so
 * with a journal file, which a kill would leave behind. Without one, a torn write
 * is harmless: it changes only the first sector of the file.
 */
export function enterWalMode(path: string): void {
  if (isInWalMode(path)) return;
  using database = new DatabaseSync(path);
  database.exec("PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = WAL");
}

/**
 * Takes a closed database out of WAL mode; throws if another process has it open.
 * If a log lies beside the file later, for example because the file was copied
 * there, the log is then known to be foreign.
 */
export function leaveWalMode(path: string): void {
  // The removal of the log must be on disk before the mode changes.
  sync(dirname(resolveLinks(path)));
  using database = new DatabaseSync(path);
  database.exec("PRAGMA journal_mode = MEMORY");
}

/**
 * Returns the names of the tables of a database, or `undefined` if there is no
 * file. Refuses everything that is not a database, or whose log is foreign.
 */
function tablesAt(path: string): string[] | undefined {
  checkNoForeignLog(path);
  const file = statOrUndefined(path);
  if (file === undefined) return undefined;
  if (file.isDirectory) throw new StoreError("directory", "it is a directory");
  if (!file.isFile) throw notAStore();
  return file.size > 0 ? tablesOf(path) : [];
}

/**
 * Refuses a log that SQLite would discard or replay into another database: an
 * open store is in WAL mode; a missing file, a backup and a closed store are not.
 *
 * Another process may open or close the store meanwhile, so a log is foreign only
 * if it is the same before and after the header was read.
 */
function checkNoForeignLog(path: string): void {
  for (const suffix of [LOG_SUFFIX, JOURNAL_SUFFIX]) {
    const log = resolveLinks(path) + suffix;
    const before = statOrUndefined(log);
    if (before === undefined || before.size === 0) continue;
    if (suffix === LOG_SUFFIX && isInWalMode(path)) continue;
    const after = statOrUndefined(log);
    if (
      after === undefined || after.ino !== before.ino ||
      after.mtime?.getTime() !== before.mtime?.getTime()
    ) continue;
    throw new StoreError("foreign log", `${log} belongs to another database`);
  }
}

function notAStore(): StoreError {
  return new StoreError("not a store", "not a Deno KV store");
}

/** @throws {StoreError} if the path cannot be examined */
export function statOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.NotADirectory) return undefined;
    throw toFileError(error);
  }
}

/** Returns the path that SQLite opens, even if it is a dangling link. */
export function resolveLinks(path: string): string {
  let target = path;
  for (let links = 0; links < LINKS_MAX; links++) {
    try {
      // A relative link is resolved from the real directory that contains it,
      // and so is "..", so the path is not normalized here.
      const directory = Deno.realPathSync(dirname(target));
      target = join(directory, basename(target));
      const link = Deno.readLinkSync(target);
      target = isAbsolute(link) ? link : `${directory}/${link}`;
    } catch {
      break;
    }
  }
  return target;
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
    // Closing a database that is not read-only removes the files beside it.
    const readOnly = sidecarsOf(path).length > 0;
    using database = new DatabaseSync(path, { readOnly });
    return database.prepare("SELECT name FROM sqlite_master").all()
      .map(({ name }) => String(name));
  } catch (error) {
    if (/not a database/.test(errorMessage(error))) throw notAStore();
    // Opening the store reports other errors, such as a lock.
    return [TABLE];
  }
}

/** Flushes a file or a directory to disk. */
export function sync(path: string): void {
  // Windows cannot open directories, nor flush a file open for reading.
  if (Deno.build.os === "windows") return;
  using file = Deno.openSync(path);
  file.syncSync();
}
