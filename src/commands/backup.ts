import { dirname, resolve } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { fileProblem } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import {
  checkStoreExists,
  companionsOf,
  copyClosed,
} from "../store/database_file.ts";
import type { StoreLocation } from "../store/kv_store.ts";
import { writeStderr } from "../telemetry/log.ts";
import { storeFailure } from "./store.ts";

type FileLocation = Extract<StoreLocation, { kind: "file" }>;

/** More pages than a database can have: one step, so one state of the store. */
const PAGES_MAX = 2 ** 31 - 1;

/**
 * Writes a complete copy of the store to a new file: its state at one time,
 * also while a service writes to it.
 *
 * It uses SQLite's own backup, since `VACUUM INTO` needs every permission of
 * Deno. The copy gets its name when it is verified and on disk: a kill at any
 * moment leaves either no file of that name or the complete copy.
 *
 * @returns the exit status
 * @throws {OperatorError} if there is no such copy
 */
export async function backUp(
  location: StoreLocation,
  path: string,
): Promise<number> {
  if (location.kind === "server") {
    throw new OperatorError(
      `${location.url} is a KV Connect server, which has backups of its own: ` +
        "write its plants to a file with export",
    );
  }
  try {
    checkStoreExists(location.path);
  } catch (error) {
    throw storeFailure("read", location, error);
  }
  const target = resolve(path);
  const partial = `${target}.${crypto.randomUUID().slice(0, 8)}.partial`;
  try {
    assertFree(target);
    const { mode } = Deno.statSync(location.path);
    createEmpty(partial);
    if (!copyClosed(location.path, partial)) await copyOpen(location, partial);
    const entries = verify(partial, location.path);
    setMode(partial, mode);
    sync(partial);
    publish(partial, target);
    sync(dirname(target));
    writeStderr(`${target} is a complete copy, ${entries} entries`);
    return 0;
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const reason = error instanceof Deno.errors.NotFound
      ? `no directory ${dirname(target)}`
      : fileProblem(error);
    throw new OperatorError(`cannot write ${target}: ${reason}`, EXIT_FAILURE);
  } finally {
    for (const suffix of ["", "-journal", "-wal", "-shm"]) {
      removeIfThere(`${partial}${suffix}`);
    }
  }
}

/** Refuses a name that is taken, or beside which SQLite would find a log. */
function assertFree(path: string): void {
  if (exists(path)) throw alreadyExists(path);
  const [companion] = companionsOf(path);
  if (companion === undefined) return;
  throw new OperatorError(
    `${companion} is left of another database of that name, and SQLite would ` +
      "replay it into the copy: move it away, or name another file",
  );
}

/** Copies a store while it may be open. */
async function copyOpen(
  location: FileLocation,
  target: string,
): Promise<void> {
  const source = openSource(location);
  try {
    await backup(source, target, { rate: PAGES_MAX });
  } finally {
    source.close();
  }
}

/** Opens a store and reads from it: its problems are not those of the copy. */
function openSource(location: FileLocation): DatabaseSync {
  try {
    const source = new DatabaseSync(location.path, { readOnly: true });
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    throw storeFailure("read", location, error);
  }
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function alreadyExists(path: string): OperatorError {
  return new OperatorError(`${path} already exists: name a new file`);
}

/** Gives a copy its name, unless another file has taken it meanwhile. */
function publish(partial: string, target: string): void {
  try {
    Deno.linkSync(partial, target);
  } catch {
    if (exists(target)) throw alreadyExists(target);
    // The file system has no links.
    Deno.renameSync(partial, target);
  }
}

/** Creates a file that only its owner may read, until it is complete. */
function createEmpty(path: string): void {
  Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close();
}

/** Gives a complete copy the permissions of the store. */
function setMode(path: string, mode: number | null): void {
  try {
    if (mode !== null) Deno.chmodSync(path, mode & 0o777);
  } catch {
    // The file system has no permissions, as FAT.
  }
}

/** Returns the number of entries in a copy, after checking that it is whole. */
function verify(path: string, original: string): number {
  const copy = new DatabaseSync(path);
  try {
    // One file without a log; a store that opens it creates one again.
    copy.exec("PRAGMA journal_mode = DELETE");
    const check = copy.prepare("PRAGMA integrity_check").get();
    if (check?.integrity_check !== "ok") {
      throw new OperatorError(
        `${original} is corrupt, and its copy would be: restore a backup`,
        EXIT_FAILURE,
      );
    }
    const row = copy.prepare("SELECT count(*) AS entries FROM kv").get();
    return Number(row?.entries);
  } finally {
    copy.close();
  }
}

/** Flushes a file or a directory to disk. */
function sync(path: string): void {
  // Windows cannot open directories, nor flush a file open for reading.
  if (Deno.build.os === "windows") return;
  using file = Deno.openSync(path);
  file.syncSync();
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // Report the original problem instead.
  }
}
