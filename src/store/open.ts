/** Opens stores, and creates the file of a new one. */
import { LOG_BYTES_PER_MS_MIN, STORE_OPEN_MS_MAX } from "../limits.ts";
import { statOrUndefined } from "./files/file_system.ts";
import { inspect, WAL_SUFFIX } from "./files/inspect.ts";
import { KvStore } from "./kv_store.ts";
import type { StoreLocation } from "./location.ts";
import { retryWhileLocked } from "./retry.ts";
import { StoreError, toStoreError } from "../store_error.ts";

/**
 * Opens a store to create plants, and creates a missing file.
 * @throws {StoreError}
 */
export function openStore(location: StoreLocation): Promise<KvStore> {
  // A read-only file opens without an error and fails at the first write.
  return open(location, createIfMissing, (store) => store.probe());
}

/**
 * Opens an existing store to read or to remove plants.
 * @throws {StoreError}
 */
export function openExistingStore(location: StoreLocation): Promise<KvStore> {
  // Deno's first writes to a file, and whatever follows them, wait without a
  // limit while another process has locked it.
  return open(location, requireStore, (store) => store.read([0n]));
}

/**
 * Opens a store, in bounded time, and retries while another process has locked it.
 * @param prepare returns whether the store in the file is new
 * @param check the first operation
 */
async function open(
  location: StoreLocation,
  prepare: (path: string) => boolean,
  check: (store: KvStore) => Promise<unknown>,
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
    return await retryWhileLocked(timeoutMsOf(location), tryToOpen);
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Returns the time for a store to open: more if a killed one left a large log. */
function timeoutMsOf(location: StoreLocation): number {
  if (location.kind === "server") return STORE_OPEN_MS_MAX;
  const log = statOrUndefined(location.path + WAL_SUFFIX);
  const logMs = (log?.size ?? 0) / LOG_BYTES_PER_MS_MIN;
  return STORE_OPEN_MS_MAX + Math.round(logMs);
}

/** Creates the file of a store if there is none; returns whether it is new. */
function createIfMissing(path: string): boolean {
  const found = inspect(path);
  if (found === "nothing") {
    // For the user of the service only. SQLite would create it for all, and also
    // at a path that Deno refuses at the next start.
    Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
  }
  return found !== "store";
}

function requireStore(path: string): boolean {
  const found = inspect(path);
  if (found === "nothing") throw new StoreError("path", "no such file");
  if (found === "empty") throw new StoreError("path", "it is empty");
  return false;
}
