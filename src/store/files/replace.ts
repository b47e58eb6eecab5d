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
import { foreignLogOf, openToRead, sidecarsOf } from "./inspect.ts";

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
  const moved: Rename[] = [];
  try {
    if (old !== undefined) link(real, aside);
    for (const sidecar of sidecarsOf(real)) {
      moved.push(rename(sidecar, aside + sidecar.slice(real.length)));
    }
    // The second names are on disk before the copy takes the first one.
    sync(dirname(real));
    Deno.renameSync(copy, real);
  } catch (error) {
    throw undo(error, aside, moved);
  }
  return {
    old: old && aside,
    log: old === undefined ? moved[0]?.to : undefined,
    unsynced: syncDirectory(real),
  };
}

/** A file that has another name now. */
interface Rename {
  readonly from: string;
  readonly to: string;
}

function rename(from: string, to: string): Rename {
  Deno.renameSync(from, to);
  return { from, to };
}

/** Takes the second names back; returns the error with those that are left. */
function undo(
  error: unknown,
  aside: string,
  moved: readonly Rename[],
): FileError {
  for (const { from, to } of moved) renameIfPossible(to, from);
  removeIfPossible(aside);
  const left = [aside, ...moved.map(({ to }) => to)].filter(exists);
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

function renameIfPossible(from: string, to: string): void {
  try {
    Deno.renameSync(from, to);
  } catch {
    // The message names what is left.
  }
}

/** Gives a file a second name. @throws {FileError} or the error of Deno */
function link(path: string, other: string): void {
  try {
    Deno.linkSync(path, other);
  } catch (error) {
    const isSupported = !(error instanceof Deno.errors.PermissionDenied) &&
      !(error instanceof Deno.errors.NotSupported);
    throw isSupported ? error : new FileError("no links");
  }
}
