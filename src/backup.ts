import { dirname, resolve } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { fileFault } from "./faults.ts";
import { printError } from "./output.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";
import { storeError, type StoreLocation } from "./store.ts";
import { assertStoreExists } from "./store_file.ts";

/** More pages than a file can have: one step, so one state of the store. */
const PAGES_MAX = 2 ** 31 - 1;

/**
 * Writes a whole copy of the store to a new file, as the store was at one
 * time, also while a service writes to it.
 *
 * SQLite's own backup, since `VACUUM INTO` needs every permission of Deno.
 * The copy is made under another name and gets its own when it is found good.
 * @returns the exit status
 * @throws {StartError} where there is no such copy
 */
export async function backUp(
  location: StoreLocation,
  path: string,
): Promise<number> {
  if (typeof location !== "string") {
    throw new StartError(
      `${location.href} is a KV Connect server, which makes its own backups: ` +
        "write its plants to a file with export",
    );
  }
  assertStoreExists(location);
  const target = resolve(path);
  assertFree(target);
  const partial = `${target}.${crypto.randomUUID().slice(0, 8)}.partial`;
  try {
    createEmpty(partial, Deno.statSync(location).mode);
    const source = openSource(location);
    try {
      await backup(source, partial, { rate: PAGES_MAX });
    } finally {
      source.close();
    }
    const entries = verify(partial, location);
    sync(partial);
    claim(target);
    Deno.renameSync(partial, target);
    sync(dirname(target));
    printError(`${target} is a whole copy, ${entries} entries`);
    return 0;
  } catch (error) {
    if (error instanceof StartError) throw error;
    const reason = error instanceof Deno.errors.NotFound
      ? `there is no folder ${dirname(target)}`
      : fileFault(error);
    throw new StartError(`cannot make ${target}: ${reason}`, EXIT_FAILURE);
  } finally {
    for (const suffix of ["", "-journal", "-wal", "-shm"]) {
      removeIfThere(`${partial}${suffix}`);
    }
  }
}

/** Opens the store and reads of it: its faults are not those of the copy. */
function openSource(path: string): DatabaseSync {
  try {
    const source = new DatabaseSync(path, { readOnly: true });
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    throw storeError("read", path, error);
  }
}

/** Refuses early what {@link claim} would refuse in the end. */
function assertFree(path: string): void {
  try {
    Deno.lstatSync(path);
  } catch {
    return;
  }
  throw exists(path);
}

/** Makes the name ours, if it is nobody's: never two files of one name. */
function claim(path: string): void {
  try {
    createEmpty(path, null);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) throw exists(path);
    throw error;
  }
}

function exists(path: string): StartError {
  return new StartError(`${path} exists: name a file that does not`);
}

/** Creates a file that not more people may read than the mode says. */
function createEmpty(path: string, mode: number | null): void {
  Deno.openSync(path, {
    write: true,
    createNew: true,
    ...(mode !== null && { mode: mode & 0o777 }),
  }).close();
}

/** The number of entries in a copy of a store, which must be whole. */
function verify(path: string, original: string): number {
  const copy = new DatabaseSync(path);
  try {
    // One file from here on; a store that is opened has its log again.
    copy.exec("PRAGMA journal_mode = DELETE");
    const check = copy.prepare("PRAGMA integrity_check").get();
    if (check?.integrity_check !== "ok") {
      throw new StartError(
        `${original} is broken, and so would its copy be: restore a backup`,
        EXIT_FAILURE,
      );
    }
    const row = copy.prepare("SELECT count(*) AS entries FROM kv").get();
    return Number(row?.entries);
  } finally {
    copy.close();
  }
}

/** Sees what was written through to the disk. */
function sync(path: string): void {
  // Windows opens no folders, and syncs no file that is open to read.
  if (Deno.build.os === "windows") return;
  const file = Deno.openSync(path);
  file.syncSync();
  file.close();
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // What went wrong before is what has to be said.
  }
}
