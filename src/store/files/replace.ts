/** Puts a copy of a store in place of a store. */
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FileError, isLocked, toFileError } from "../../files/file_error.ts";
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
import { diagnose } from "./diagnose.ts";
import {
  foreignLogOf,
  JOURNAL_SUFFIX,
  openToRead,
  sidecarsOf,
} from "./inspect.ts";

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
 * over it. A kill at any time leaves the old store, perhaps with a second name,
 * or the new one; a failure leaves the old one without a second name.
 *
 * The old store is complete in one file then, also after a failure. One that is
 * corrupt, or no store at all, is kept as it is, with its log; it cannot be
 * locked, so nothing notices that another process has it open.
 *
 * @param real the store itself, not a link to it
 * @param copy a complete file on the same file system, in a directory of its own
 * @throws {FileError} if another process has the old store open, if its log
 * cannot be written into it, or if the file system has no hard links
 */
export function replaceStore(real: string, copy: string): Replaced {
  const old = statOrUndefined(real);
  if (old?.isFile === false) {
    throw new FileError("special path", "it is not a regular file");
  }
  setOwner(copy, old ?? Deno.statSync(dirname(real)));
  setMode(copy, old);
  sync(copy);

  // Until the copy is in place, no service may start with the old store.
  using _lock = old && isSound(real) ? mergeLog(real) : undefined;
  const aside = `${real}.replaced-${timeInName()}`;
  const names: SecondName[] = [];
  try {
    for (const path of [...(old ? [real] : []), ...sidecarsOf(real)]) {
      names.push(link(path, aside + path.slice(real.length)));
    }
    sync(dirname(real));
    // SQLite would roll a journal back into the copy. A log beside a copy is
    // refused, so it can be removed last.
    removeIfPossible(real + JOURNAL_SUFFIX);
    Deno.renameSync(copy, real);
  } catch (error) {
    throw undo(error, names);
  }
  for (const sidecar of sidecarsOf(real).toReversed()) {
    removeIfPossible(sidecar);
  }
  return {
    old: old && aside,
    log: old === undefined ? names[0]?.second : undefined,
    unsynced: syncDirectory(real),
  };
}

/** Two names of one file. */
interface SecondName {
  readonly first: string;
  readonly second: string;
}

/** Gives a file a second name. @throws {FileError} or the error of Deno */
function link(first: string, second: string): SecondName {
  try {
    Deno.linkSync(first, second);
    return { first, second };
  } catch (error) {
    const isSupported = !(error instanceof Deno.errors.PermissionDenied) &&
      !(error instanceof Deno.errors.NotSupported);
    throw isSupported ? error : new FileError("no links");
  }
}

/** Takes second names back; returns the error with those that are left. */
function undo(error: unknown, names: readonly SecondName[]): FileError {
  for (const { first, second } of names) {
    try {
      if (exists(first)) Deno.removeSync(second);
      else Deno.renameSync(second, first);
    } catch {
      // The message names what is left.
    }
  }
  const left = names.map(({ second }) => second).filter(exists);
  const { problem, message } = toFileError(error);
  return new FileError(
    problem,
    left.length === 0 ? message : `${message}; it left ${left.join(" and ")}`,
  );
}

/**
 * Returns whether a database and its log can become one file. Merging the log of
 * a corrupt one would change both, and fail.
 */
function isSound(path: string): boolean {
  if (statOrUndefined(path)?.size === 0) return false;
  if (foreignLogOf(path) !== undefined) return false;
  try {
    using database = openToRead(path);
    const check = database.prepare("PRAGMA quick_check(1)").get();
    return check?.quick_check === "ok";
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
