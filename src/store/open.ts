/** Opens stores, and creates the file of a new one. */
import { LOG_BYTES_PER_MS_MIN, STORE_OPEN_MS_MAX } from "../limits.ts";
import { lstatOrUndefined } from "./files/file_system.ts";
import { inspect, WAL_SUFFIX } from "./files/inspect.ts";
import { KvStore } from "./kv_store.ts";
import type { StoreLocation } from "./location.ts";
import { retryWhileLocked, withTimeout } from "./retry.ts";
import { StoreError, toStoreError } from "./store_error.ts";

/**
 * Opens a store to create plants, and creates a missing file.
 * @returns the store, and whether its file was missing or empty
 * @throws {StoreError}
 */
export async function openStore(location: StoreLocation) {
  let isNew = false;
  function prepare(path: string): void {
    const found = inspect(path);
    if (found === "nothing") {
      // For the user of the service only. SQLite would create it for all, and
      // also at a path that Deno refuses at the next start.
      Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
    }
    isNew ||= found !== "store";
  }
  // A read-only file opens without an error and fails at the first write.
  const store = await open(location, prepare, (store) => store.probe());
  return { store, isNew };
}

/**
 * Opens an existing store to read or to remove plants.
 * @throws {StoreError}
 */
export function openExistingStore(location: StoreLocation): Promise<KvStore> {
  function requireStore(path: string): void {
    const found = inspect(path);
    if (found === "nothing") throw new StoreError("path", "no such file");
    if (found === "empty") throw new StoreError("path", "it is empty");
  }
  // While another process has the lock, Deno's first writes wait without a limit.
  // A read waits for them, also one that meets damage.
  async function readOnce(store: KvStore): Promise<void> {
    await store.read([0n]).catch((error) => {
      if (!error.isDamage) throw error;
    });
  }
  return open(location, requireStore, readOnce);
}

/**
 * Opens a store, in bounded time, and retries while another process has locked it,
 * and once if a read has failed.
 * @param prepare examines the path of a file
 * @param check the first operation
 */
async function open(
  location: StoreLocation,
  prepare: (path: string) => void,
  check: (store: KvStore) => Promise<unknown>,
): Promise<KvStore> {
  async function tryToOpen(): Promise<KvStore> {
    if (location.token === undefined) prepare(location.name);
    const store = await KvStore.open(location);
    try {
      await check(store);
      return store;
    } catch (error) {
      store.close();
      throw error;
    }
  }
  async function openInTime(): Promise<KvStore> {
    const timeoutMs = timeoutMsOf(location);
    const opening = retryWhileLocked(timeoutMs, tryToOpen);
    return await withTimeout(opening, timeoutMs);
  }
  for (let tries = 1;; tries++) {
    try {
      return await openInTime();
    } catch (thrown) {
      const error = toStoreError(thrown);
      // SQLite reports a failed read of an intact database in the same way.
      if (error.kind !== "corrupt" || tries === 2) throw error;
    }
  }
}

/** Returns the time for a store to open: more if a killed one left a large log. */
function timeoutMsOf(location: StoreLocation): number {
  if (location.token !== undefined) return STORE_OPEN_MS_MAX;
  const log = lstatOrUndefined(location.name + WAL_SUFFIX);
  const logMs = (log?.size ?? 0) / LOG_BYTES_PER_MS_MIN;
  return STORE_OPEN_MS_MAX + Math.round(logMs);
}
