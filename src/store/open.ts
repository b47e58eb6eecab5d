/** Opens stores, and creates the file of a new one. */
import { dirname } from "node:path";
import { STORE_OPEN_MS_MAX } from "../limits.ts";
import { toStoreError } from "./store_error.ts";
import { FileError, isDamaged, isLocked } from "../files/file_error.ts";
import { diagnose } from "./files/diagnose.ts";
import { findStore, requireStore } from "./files/inspect.ts";
import {
  resolveLinks,
  setOwner,
  statOrUndefined,
} from "../files/file_system.ts";
import { isComplete, refuseLongName, savedFilesOf } from "./files/saved.ts";
import { KvStore } from "./kv_store.ts";
import type { StoreLocation } from "./location.ts";
import { retryWhile } from "./retry.ts";

/** Permissions of a new file: plants are for the user of the service only. */
const FILE_MODE = 0o600;

/**
 * Opens a store to create plants, and probes it, within
 * {@link STORE_OPEN_MS_MAX}. A missing file is created. A file of saved plants
 * beside it refuses that, since they may not be in the store.
 * @param isImportOfSaved whether such a file is imported, which opens it
 * @throws {FileError}
 */
export function openStore(
  location: StoreLocation,
  isImportOfSaved = false,
): Promise<KvStore> {
  function prepare(path: string): boolean {
    refuseLongName(path);
    if (!isImportOfSaved) refuseSaved(path);
    return prepareFile(path);
  }
  return open(location, prepare, async (store) => {
    // A read-only file opens without an error and fails at the first write.
    await store.probe();
    await store.checkReadable();
  });
}

/**
 * Opens an existing store to read it, within {@link STORE_OPEN_MS_MAX}.
 * @throws {FileError}
 */
export function openStoreToRead(location: StoreLocation): Promise<KvStore> {
  function prepare(path: string): boolean {
    requireStore(path);
    return false;
  }
  return open(location, prepare, async (store) => {
    try {
      await store.checkReadable();
    } catch (error) {
      // Other plants can be read.
      if (!isDamaged(error)) throw error;
    }
  });
}

/** @param prepare returns whether the store is new */
async function open(
  location: StoreLocation,
  prepare: (path: string) => boolean,
  check: (store: KvStore) => Promise<void>,
): Promise<KvStore> {
  let isNew = false;
  async function tryToOpen(): Promise<KvStore> {
    if (location.kind === "file") isNew = prepare(location.path) || isNew;
    const store = await KvStore.open(location, isNew);
    try {
      await check(store);
      return store;
    } catch (error) {
      store.close();
      throw error;
    }
  }
  try {
    return await retryWhile(isLocked, STORE_OPEN_MS_MAX, tryToOpen);
  } catch (error) {
    throw location.kind === "file"
      ? diagnose(error, location.path)
      : toStoreError(error, location);
  }
}

/** Refuses a store beside saved plants. @throws {FileError} */
function refuseSaved(path: string): void {
  const [saved] = savedFilesOf(path);
  if (saved === undefined) return;
  const when = isComplete(saved)
    ? "were saved"
    : "are being saved, or were by a service that was killed,";
  throw new FileError(
    "saved plants",
    `plants that may not be in it ${when} in ${saved}`,
    saved,
  );
}

/** Creates the file of a store if there is none; returns whether it is new. */
function prepareFile(path: string): boolean {
  if (findStore(path)) return false;
  const real = resolveLinks(path);
  const directory = statOrUndefined(dirname(real));
  if (!directory?.isDirectory) {
    throw new FileError("no directory", `no directory ${dirname(real)}`);
  }
  const isAbsent = statOrUndefined(real) === undefined;
  // SQLite would create it at a path that Deno refuses at the next start.
  Deno.openSync(real, { write: true, create: true, mode: FILE_MODE }).close();
  // An import by root must not create a store that the service cannot open.
  if (isAbsent) setOwner(real, directory);
  return true;
}
