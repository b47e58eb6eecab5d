/** Puts a copy of a store in place of a store. */
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { FileError, isLocked, toFileError } from "../../files/file_error.ts";
import { diagnose } from "./diagnose.ts";
import { foreignLogOf, openToRead, sidecarsOf } from "./inspect.ts";
import {
  exists,
  removeIfPossible,
  setMode,
  setOwner,
  statOrUndefined,
  sync,
  timeInName,
} from "../../files/file_system.ts";
import { syncDirectory } from "../../files/publish.ts";

/** What a replacement has done. */
export interface Replaced {
  /** The second name of the old store, if there was one. */
  readonly old: string | undefined;
  /** The new name of a log without a database, if there was one. */
  readonly log: string | undefined;
  /** Why the directory could not be synced, if it could not. */
  readonly unsynced: string | undefined;
}

/**
 * Gives the store at a path a second name, if there is one, and renames a copy
 * over it. A kill at any time leaves the old store or the new one; a failure
 * leaves the old one without a second name.
 *
 * The old store is complete in one file then, also after a failure. One that is
 * corrupt, or no store at all, is kept as it is, with its log.
 *
 * @param real the store itself, not a link to it
 * @param copy a complete file on the same file system, in a directory of its own
 * @throws {FileError} if another process has the old store open, or if its log
 * cannot be written into it
 */
export async function replaceStore(
  real: string,
  copy: string,
): Promise<Replaced> {
  const old = statOrUndefined(real);
  if (old?.isFile === false) {
    throw new FileError("special path", "it is not a regular file");
  }
  const owner = old ?? Deno.statSync(dirname(real));
  setOwner(copy, owner);
  setMode(copy, old);
  sync(copy);

  const isDatabase = old !== undefined && old.size > 0 &&
    foreignLogOf(real) === undefined && isReadable(real);
  using lock = isDatabase ? mergeLog(real) : undefined;
  const aside = `${real}.replaced-${timeInName()}`;
  const moved: [from: string, to: string][] = [];
  try {
    if (old !== undefined) {
      if (!link(real, aside)) {
        const partial = `${copy}.old`;
        if (lock) await copyDatabase(real, partial);
        else Deno.copyFileSync(real, partial);
        setOwner(partial, owner);
        setMode(partial, old);
        sync(partial);
        Deno.renameSync(partial, aside);
      }
    }
    for (const sidecar of sidecarsOf(real)) {
      const name = aside + sidecar.slice(real.length);
      Deno.renameSync(sidecar, name);
      moved.push([sidecar, name]);
    }
    sync(dirname(real));
    Deno.renameSync(copy, real);
    return {
      old: old && aside,
      log: old === undefined ? moved[0]?.[1] : undefined,
      unsynced: syncDirectory(real),
    };
  } catch (error) {
    for (const [from, to] of moved) renameIfPossible(to, from);
    removeIfPossible(aside);
    const left = [aside, ...moved.map(([, to]) => to)].filter(exists);
    const { problem, message } = toFileError(error);
    if (left.length === 0) throw error;
    throw new FileError(problem, `${message}; it left ${left.join(" and ")}`);
  }
}

/** Returns whether SQLite can read a database. */
function isReadable(path: string): boolean {
  try {
    using database = openToRead(path);
    database.prepare("SELECT 1 FROM sqlite_master").get();
    return true;
  } catch (error) {
    // Opening it for writing reports other errors, such as a lock.
    const { problem } = toFileError(error);
    return problem !== "corrupt" && problem !== "not a store";
  }
}

/**
 * Locks a store that no other process has open, and writes its log into it.
 * @throws {FileError}
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
    throw new FileError("in use", "another process has opened it");
  } catch (error) {
    database?.close();
    if (!isLocked(error)) throw diagnose(error, path);
    throw new FileError("in use", "another process has it open");
  }
}

function renameIfPossible(from: string, to: string): void {
  try {
    Deno.renameSync(from, to);
  } catch {
    // The message names what is left.
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
