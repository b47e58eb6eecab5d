/** Database files: what is at a path before a store is opened there. */
import { basename } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FileError, toFileError } from "../../files/file_error.ts";
import {
  isLink,
  isSameFile,
  resolveLinks,
  statOrUndefined,
} from "../../files/file_system.ts";

/** Suffix of the write-ahead log of an open or killed store. */
export const WAL_SUFFIX = "-wal";

/** Suffix of the index of that log, which the processes share. */
export const SHM_SUFFIX = "-shm";

/** Suffix of the journal of a database that is not in WAL mode. */
export const JOURNAL_SUFFIX = "-journal";

/** Suffixes of all files that SQLite may keep beside a database. */
const SIDECAR_SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX, JOURNAL_SUFFIX];

/** The table of a Deno KV store, and the one that Deno creates before it. */
const TABLE = "kv";
const FIRST_TABLE = "migration_state";

/**
 * What Deno reads when it opens a store, in its queue and its index of
 * expirations: if that is corrupt, it panics.
 */
const READ_BY_DENO = [
  "SELECT min(ts) FROM queue",
  "SELECT id FROM queue_running ORDER BY deadline LIMIT 1",
  "SELECT expiration_ms FROM kv WHERE expiration_ms >= 0 LIMIT 1",
];

/** The read version in a database header (SQLite file format, section 1.3). */
const READ_VERSION_OFFSET = 19;
const READ_VERSION_WAL = 2;

/**
 * Numbers of frames in the index of a log: in the log, and copied to the database
 * (SQLite WAL-mode file format, section 2.1: mxFrame and nBackfill).
 */
const FRAMES_OFFSET = 16;
const FRAMES_COPIED_OFFSET = 96;
const INDEX_BYTES = 100;

/**
 * Returns whether a path holds a Deno KV store. Returns false if one can be
 * created there: there is no file, an empty one, or a first start was
 * interrupted. It does not open the store, which would create one.
 * @throws {FileError} if the path holds anything else, a corrupt store, a log
 * that SQLite would replay into the wrong database, or a store without its log
 * @throws the error of Deno if the path cannot be examined
 */
export function findStore(path: string): boolean {
  refuseLogBesideLink(path);
  refuseForeignLog(path);
  const file = statOrUndefined(path);
  if (file === undefined) return false;
  if (file.isDirectory) throw new FileError("directory");
  // Opening a pipe to create a store in it would never return.
  if (!file.isFile) throw new FileError("not a store");
  if (file.size === 0) return false;
  refuseMissingLog(path);
  const tables = tablesOf(path);
  if (tables.includes(TABLE)) return true;
  if (tables.every((table) => table === FIRST_TABLE)) return false;
  throw new FileError("not a store");
}

/** Requires a path to hold a Deno KV store. @throws {FileError} */
export function requireStore(path: string): void {
  if (findStore(path)) return;
  if (statOrUndefined(path) === undefined) throw new FileError("missing");
  throw new FileError("missing", "it is empty");
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

/**
 * Refuses a link with a log beside it: the database was moved while a process
 * had it open, and its last changes are in this log only.
 * @throws {FileError}
 */
export function refuseLogBesideLink(path: string): void {
  if (!isLink(path)) return;
  const log = path + WAL_SUFFIX;
  const found = statOrUndefined(log);
  const own = statOrUndefined(resolveLinks(path) + WAL_SUFFIX);
  if (found === undefined || isSameFile(found, own)) return;
  throw new FileError(
    "log beside link",
    `it is a link, but the log of its database is beside the link: ${log}`,
  );
}

function refuseForeignLog(path: string): void {
  const log = foreignLogOf(path);
  if (log === undefined) return;
  if ((statOrUndefined(path)?.size ?? 0) > 0) {
    throw new FileError("foreign log", `${log} belongs to another database`);
  }
  throw new FileError(
    "missing database",
    `${basename(path)} is missing or empty, but its log is here: ${log}`,
  );
}

/**
 * Refuses a store without its log, if the index of the log shows that it had
 * plants that are not in the database.
 */
function refuseMissingLog(path: string): void {
  const real = resolveLinks(path);
  const log = real + WAL_SUFFIX;
  if (!isInWalMode(path) || statOrUndefined(log) !== undefined) return;
  const index = new DataView(readStart(real + SHM_SUFFIX, INDEX_BYTES).buffer);
  // SQLite writes it in the byte order of the machine.
  const frames = index.getUint32(FRAMES_OFFSET, true);
  if (frames <= index.getUint32(FRAMES_COPIED_OFFSET, true)) return;
  // Another process may have opened the store meanwhile.
  if (statOrUndefined(log) !== undefined) return;
  throw new FileError("missing log", `its log is missing: ${log}`);
}

/** Returns whether a database is in WAL mode; a missing one is not. */
function isInWalMode(path: string): boolean {
  // With limited permissions, Deno 2.6 opens no link that leads nowhere.
  const header = readStart(resolveLinks(path), READ_VERSION_OFFSET + 1);
  return header[READ_VERSION_OFFSET] === READ_VERSION_WAL;
}

/** Returns the first bytes of a file, zeros if it is missing or shorter. */
function readStart(path: string, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  try {
    using file = Deno.openSync(path);
    file.readSync(bytes);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return bytes;
}

/** Returns the tables of a database; reads what Deno reads at its opening. */
function tablesOf(path: string): string[] {
  try {
    using database = openToRead(path);
    const tables = database.prepare("SELECT name FROM sqlite_master").all()
      .map(({ name }) => String(name));
    if (tables.includes(TABLE)) {
      for (const query of READ_BY_DENO) database.prepare(query).get();
    }
    return tables;
  } catch (error) {
    const converted = toFileError(error);
    if (["not a store", "corrupt"].includes(converted.problem)) throw converted;
    // Opening the store reports other errors, such as a lock.
    return [TABLE];
  }
}
