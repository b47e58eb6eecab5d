import { basename, dirname, isAbsolute, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { errorMessage, fileProblem } from "../messages.ts";
import { StoreError } from "./store_error.ts";

/** The write-ahead log of an open database, and its index. */
const LOG_SUFFIX = "-wal";
const INDEX_SUFFIX = "-shm";

/** A rollback journal, which exists while the journal mode changes. */
const JOURNAL_SUFFIX = "-journal";

/** The header of a rollback journal (SQLite file format, section 3). */
const JOURNAL_MAGIC = "d9d505f920a163d7";
const JOURNAL_PAGES_OFFSET = 16;
const JOURNAL_PAGE_BYTES_OFFSET = 24;

/** Suffixes of all files that SQLite may keep beside a database. */
export const COMPANION_SUFFIXES = [LOG_SUFFIX, INDEX_SUFFIX, JOURNAL_SUFFIX];

/** The table of a Deno KV store, and the one that Deno creates before it. */
const TABLE = "kv";
const FIRST_TABLE = "migration_state";

/** The read version in a database header (SQLite file format, section 1.3). */
const READ_VERSION_OFFSET = 19;
const READ_VERSION_WAL = 2;

/** Maximum symbolic links to follow, as in Linux. */
const LINKS_MAX = 40;

/** Bytes to copy at one time. */
const COPY_BYTES = 1024 * 1024;

/** A file; inode and device distinguish it from another one at its path. */
interface Identity {
  readonly path: string;
  readonly inode: number | null;
  readonly device: number;
}

/** The files of an open embedded store, checked for deletion and replacement. */
export class DatabaseFile {
  /** The database at its configured path, which may be a link. */
  readonly #named: Identity;
  /** The database at the path that SQLite uses. */
  readonly #real: Identity;
  readonly #companions: readonly Identity[];
  #isMissing = false;
  /** Set permanently when another file has replaced the open one. */
  #replaced: string | undefined;
  #companionProblem: string | undefined;

  /** @param path absolute, of the database that has just been opened */
  constructor(path: string) {
    this.#named = identify(path);
    this.#real = identify(Deno.realPathSync(path));
    this.#companions = [LOG_SUFFIX, INDEX_SUFFIX]
      .map((suffix) => this.#real.path + suffix)
      .filter((path) => statOrUndefined(path) !== undefined)
      .map(identify);
  }

  /**
   * Returns the problem if the path no longer leads to the open database:
   * SQLite continues to write to a deleted file. Nothing is lost if the file is
   * moved away and back.
   */
  problem(): string | undefined {
    try {
      return this.#findProblem();
    } catch (error) {
      return errorMessage(error);
    }
  }

  #findProblem(): string | undefined {
    if (this.#replaced !== undefined) return this.#replaced;
    switch (stateOf(this.#named)) {
      case "missing":
        this.#isMissing = true;
        return "the database file was deleted: put that same file back, or " +
          "stop the service and restore a backup";
      case "replaced":
        this.#replaced = "the database file was replaced: restart to open " +
          `the new one${this.#renameCompanions()}`;
        return this.#replaced;
      case "in place":
        // The companions of a file that was moved back may still be missing.
        if (this.#isMissing) this.checkCompanions();
        this.#isMissing = false;
        return this.#companionProblem;
    }
  }

  /**
   * Checks the companions of the database, for {@link problem}. Too expensive
   * after each commit: since Linux 6.13, the first write after reading the times
   * of a file updates them, which made each commit a third slower.
   */
  checkCompanions(): void {
    try {
      const lost = this.#companions.find((it) => stateOf(it) !== "in place");
      // A link can lead to the same file under another name, beside which other
      // processes would not find the log.
      const isMoved = Deno.realPathSync(this.#named.path) !== this.#real.path;
      const problem = isMoved
        ? "the database file was moved, and a link leads to it"
        : lost && `${basename(lost.path)} was deleted or replaced`;
      this.#companionProblem = problem &&
        `${problem}: restart with SIGTERM or Ctrl-C, which saves its plants`;
    } catch (error) {
      this.#companionProblem = errorMessage(error);
    }
  }

  /**
   * Renames the companions of a replaced database: the next start would replay
   * them into the new one, which SQLite cannot detect.
   * @returns the renamed files, for the message
   */
  #renameCompanions(): string {
    if (stateOf(this.#real) !== "replaced") return "";
    const time = new Date().toISOString().replaceAll(":", "-");
    let renamed = "";
    for (const companion of this.#companions) {
      if (stateOf(companion) !== "in place") continue;
      const aside = `${companion.path}.${time}`;
      Deno.renameSync(companion.path, aside);
      renamed += `; ${basename(companion.path)} of the old one is now ${
        basename(aside)
      }`;
    }
    return renamed;
  }
}

function identify(path: string): Identity {
  const { ino, dev } = Deno.statSync(path);
  return { path, inode: ino, device: dev };
}

/** Checks whether a path still leads to the same file. */
function stateOf(
  { path, inode, device }: Identity,
): "in place" | "replaced" | "missing" {
  try {
    const { ino, dev } = Deno.statSync(path);
    return ino === inode && dev === device ? "in place" : "replaced";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "missing";
    throw error;
  }
}

/**
 * Checks that a path holds a Deno KV store, without opening it: opening would
 * create one.
 * @throws {StoreError}
 */
export function checkStoreExists(path: string): void {
  const file = statOrUndefined(path);
  if (file === undefined) throw new StoreError("missing", "no such file");
  const tables = checkDatabase(path, file);
  if (!tables.includes(TABLE)) throw notAStore();
}

/**
 * Checks that a path holds a Deno KV store, or that one can be created there
 * without losing anything.
 * @throws {StoreError}
 */
export function checkStoreUsable(path: string): void {
  const file = statOrUndefined(path);
  if (file !== undefined) {
    const tables = checkDatabase(path, file);
    // A first start that was interrupted leaves no table, or only the first.
    const isUsable = tables.includes(TABLE) ||
      tables.every((table) => table === FIRST_TABLE);
    if (!isUsable) throw notAStore();
    return;
  }
  const real = resolveLinks(path);
  if (!statOrUndefined(dirname(real))?.isDirectory) {
    throw new StoreError("no directory", `no directory ${dirname(real)}`);
  }
  checkNoForeignLog(real);
}

/**
 * Returns the files that SQLite would use with a database at a path. If the path
 * is a link, they are beside the real file.
 */
export function companionsOf(path: string): string[] {
  const real = resolveLinks(path);
  return COMPANION_SUFFIXES.map((suffix) => real + suffix)
    .filter((companion) => statOrUndefined(companion) !== undefined);
}

/**
 * Takes a closed database out of WAL mode, unless another process has it open.
 * If a log lies beside the file later, for example because the file was copied
 * there, the log is then known to be foreign.
 */
export function leaveWalMode(path: string): void {
  try {
    // The removal of the log must be on disk before the mode changes.
    sync(dirname(resolveLinks(path)));
    using database = new DatabaseSync(path);
    // Without a journal file, which a kill would leave behind. A torn write is
    // harmless: it changes only the first sector of the file.
    database.exec("PRAGMA journal_mode = MEMORY");
  } catch {
    // Another process has it open, or this user may only read it.
  }
}

/**
 * Copies a database that no process has open, so all of it is in one file.
 * SQLite would create files beside it, or fail without the permission.
 * @returns whether the copy is complete: it is not if the database is open, or
 * was opened in the meantime
 */
export function copyClosed(path: string, target: string): boolean {
  if (companionsOf(path).length > 0) return false;
  const before = Deno.statSync(path);
  copyContents(path, target);
  const after = Deno.statSync(path);
  return companionsOf(path).length === 0 && after.size === before.size &&
    after.mtime?.getTime() === before.mtime?.getTime();
}

/**
 * Copies a file into one that its owner can write. `Deno.copyFile` copies the
 * permissions too: SQLite could not write to the copy of a read-only file, and a
 * file system without permissions (FAT) rejects them.
 */
function copyContents(path: string, target: string): void {
  using source = Deno.openSync(path);
  using copy = Deno.openSync(target, {
    write: true,
    create: true,
    mode: 0o600,
  });
  const buffer = new Uint8Array(COPY_BYTES);
  for (;;) {
    const count = source.readSync(buffer);
    if (count === null) return;
    for (let written = 0; written < count;) {
      written += copy.writeSync(buffer.subarray(written, count));
    }
  }
}

/** Checks an existing file, and returns the names of its tables. */
function checkDatabase(path: string, file: Deno.FileInfo): string[] {
  if (file.isDirectory) throw new StoreError("directory", "it is a directory");
  if (!file.isFile) throw notAStore();
  // An open store is in WAL mode; a new file, a backup and a closed store are
  // not.
  const real = resolveLinks(path);
  if (!isInWalMode(path)) checkNoForeignLog(real);
  checkNoForeignJournal(real, file.size);
  return file.size > 0 ? tablesOf(path) : [];
}

/** Refuses a log that SQLite would discard, or replay into another database. */
function checkNoForeignLog(realPath: string): void {
  const log = realPath + LOG_SUFFIX;
  if ((statOrUndefined(log)?.size ?? 0) === 0) return;
  throw new StoreError(
    "foreign log",
    `${log} has plants of another database of that name`,
  );
}

/**
 * Refuses a rollback journal that SQLite would roll back into another database.
 * A store has one while it is created, and while its journal mode changes,
 * which does not change its size.
 */
function checkNoForeignJournal(realPath: string, bytes: number): void {
  const journal = realPath + JOURNAL_SUFFIX;
  if (statOrUndefined(journal) === undefined) return;
  const header = readStart(journal, JOURNAL_PAGE_BYTES_OFFSET + 4);
  // SQLite ignores a journal without this header.
  if (header.subarray(0, 8).toHex() !== JOURNAL_MAGIC) return;
  const view = new DataView(header.buffer);
  const pages = view.getUint32(JOURNAL_PAGES_OFFSET);
  const pageBytes = view.getUint32(JOURNAL_PAGE_BYTES_OFFSET);
  if (bytes === pages * pageBytes) return;
  if (pages === 0 && bytes <= pageBytes) return;
  throw new StoreError(
    "foreign log",
    `${journal} has pages of another database of that name`,
  );
}

function notAStore(): StoreError {
  return new StoreError("not a store", "not a Deno KV store");
}

/** @throws {StoreError} if the path cannot be examined */
function statOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.NotADirectory) return undefined;
    throw new StoreError("denied", fileProblem(error));
  }
}

/** Returns the path that SQLite opens, even if it is a dangling link. */
function resolveLinks(path: string): string {
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

function isInWalMode(path: string): boolean {
  const header = readStart(path, READ_VERSION_OFFSET + 1);
  return header[READ_VERSION_OFFSET] === READ_VERSION_WAL;
}

/** Reads the first bytes of a file; the rest is 0 if it is shorter. */
function readStart(path: string, bytes: number): Uint8Array<ArrayBuffer> {
  const start = new Uint8Array(bytes);
  try {
    using file = Deno.openSync(path);
    file.readSync(start);
  } catch (error) {
    throw new StoreError("denied", fileProblem(error));
  }
  return start;
}

function tablesOf(path: string): string[] {
  try {
    // Closing a database that is not read-only removes the files beside it.
    const readOnly = companionsOf(path).length > 0;
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
