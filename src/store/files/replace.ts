/** Puts a copy of a store in place of a store. */
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { errorMessage } from "../../messages.ts";
import { foreignLogOf, moveSidecars, openToRead } from "./inspect.ts";
import {
  setMode,
  setOwner,
  statOrUndefined,
  sync,
  timeInName,
} from "./paths.ts";
import { toOpenError } from "./diagnose.ts";
import { isLocked, StoreError } from "../errors.ts";

/** SQLite's messages for a database that it cannot read. */
const UNREADABLE = /malformed|not a database/;

/**
 * Gives the store at a path a second name, if there is one, and renames a copy
 * over it. A kill at any time leaves the old store or the new one.
 *
 * The old store is complete in one file then. One that is corrupt, or no store
 * at all, is kept as it is, with its log.
 *
 * @param real the store itself, not a link to it
 * @param copy a complete file on the same file system, in a directory of its own
 * @returns the second name of the old store, or of its log without it, if any
 * @throws {StoreError} if another process has the old store open, or if its log
 * cannot be written into it
 */
export async function replaceStore(
  real: string,
  copy: string,
): Promise<string | undefined> {
  const old = statOrUndefined(real);
  if (old?.isFile === false) {
    throw new StoreError("special path", "it is not a regular file");
  }
  const owner = old ?? Deno.statSync(dirname(real));
  setOwner(copy, owner);
  setMode(copy, old);
  sync(copy);

  const isDatabase = old !== undefined && old.size > 0 &&
    foreignLogOf(real) === undefined && isReadable(real);
  using lock = isDatabase ? mergeLog(real) : undefined;
  const aside = `${real}.replaced-${timeInName()}`;
  if (old !== undefined && !link(real, aside)) {
    const partial = `${copy}.old`;
    if (lock) await copyDatabase(real, partial);
    else Deno.copyFileSync(real, partial);
    setOwner(partial, owner);
    setMode(partial, old);
    sync(partial);
    Deno.renameSync(partial, aside);
  }
  const [log] = moveSidecars(real, aside);
  sync(dirname(real));
  Deno.renameSync(copy, real);
  sync(dirname(real));
  return old === undefined ? log : aside;
}

/** Returns whether SQLite can read a database. */
function isReadable(path: string): boolean {
  try {
    using database = openToRead(path);
    database.prepare("SELECT 1 FROM sqlite_master").get();
    return true;
  } catch (error) {
    // Opening it for writing reports other errors, such as a lock.
    return !UNREADABLE.test(errorMessage(error));
  }
}

/**
 * Locks a store that no other process has open, and writes its log into it.
 * @throws {StoreError}
 */
function mergeLog(path: string): Disposable {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path);
    // SQLite leaves WAL mode only if no other process has the database open. The
    // lock prevents a start from entering it.
    database.exec("PRAGMA journal_mode = DELETE; BEGIN IMMEDIATE");
    const mode = database.prepare("PRAGMA journal_mode").get();
    if (mode?.journal_mode === "delete") return database;
    throw new StoreError("in use", "another process has opened it");
  } catch (error) {
    database?.close();
    if (!isLocked(error)) throw toOpenError(error, { kind: "file", path });
    throw new StoreError("in use", "another process has it open");
  }
}

/** Gives a file a second name, if the file system supports that. */
function link(path: string, other: string): boolean {
  try {
    Deno.linkSync(path, other);
    return true;
  } catch {
    return false;
  }
}

/**
 * Copies a locked database. Closing its file other than through SQLite would
 * release the locks of this process.
 */
async function copyDatabase(from: string, to: string): Promise<void> {
  using source = new DatabaseSync(from, { readOnly: true });
  await backup(source, to);
}
