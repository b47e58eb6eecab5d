/** Opens stores, and creates the file of a new one. */
import { FOREIGN_LOG_MS, STORE_OPEN_MS_MAX } from "../limits.ts";
import {
  checkStoreExists,
  checkStoreUsable,
  enterWalMode,
  leaveWalMode,
  resolveLinks,
} from "./database_file.ts";
import { KvStore } from "./kv_store.ts";
import type { StoreLocation } from "./location.ts";
import { createDatabaseFile } from "./new_file.ts";
import { isLocked, StoreError, toStoreError } from "./store_error.ts";
import { retryWhile, withTimeout } from "./waiting.ts";

/** Permissions of a new file, as SQLite creates it, before the umask. */
const FILE_MODE = 0o644;

/**
 * Opens a store to create plants, and probes it, within
 * {@link STORE_OPEN_MS_MAX}. A missing file is created.
 * @throws {StoreError}
 */
export function openStore(location: StoreLocation): Promise<KvStore> {
  return open(location, prepareFile, async (store) => {
    // A read-only file opens without an error and fails at the first write.
    await store.probe();
    await store.checkReadable();
  });
}

/**
 * Opens an existing store to read it, within {@link STORE_OPEN_MS_MAX}.
 * @throws {StoreError}
 */
export function openStoreToRead(location: StoreLocation): Promise<KvStore> {
  return open(location, prepareExisting, (store) => store.checkReadable());
}

/** @param prepare returns whether it has created the file */
async function open(
  location: StoreLocation,
  prepare: (path: string) => Promise<boolean> | boolean,
  check: (store: KvStore) => Promise<void>,
): Promise<KvStore> {
  let isNew = false;
  async function tryToOpen(): Promise<KvStore> {
    if (location.kind === "file") {
      isNew ||= await prepare(location.path);
    }
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
    const opened = retryWhile(
      isLocked,
      STORE_OPEN_MS_MAX,
      () => retryWhile(isForeignLog, FOREIGN_LOG_MS, tryToOpen),
    );
    return await withTimeout(opened, STORE_OPEN_MS_MAX);
  } catch (error) {
    throw toStoreError(error, location);
  }
}

/** Prepares the file of an existing store to be opened; creates nothing. */
function prepareExisting(path: string): boolean {
  checkStoreExists(path);
  enterWalMode(path);
  return false;
}

function isForeignLog(error: unknown): boolean {
  return error instanceof StoreError && error.problem === "foreign log";
}

/** Creates the file of a store, or prepares an existing one to be opened. */
async function prepareFile(path: string): Promise<boolean> {
  const isNew = !checkStoreUsable(path) &&
    await createDatabaseFile(resolveLinks(path), FILE_MODE, async (partial) => {
      (await KvStore.open({ kind: "file", path: partial })).close();
      // close() ignores a failure of this: the log would be lost here.
      leaveWalMode(partial);
    });
  enterWalMode(path);
  return isNew;
}
