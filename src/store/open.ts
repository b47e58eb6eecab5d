/** Opens stores, and creates the file of a new one. */
import { LOG_BYTES_PER_MS_MIN, STORE_OPEN_MS_MAX } from "../limits.ts";
import { NEW_FILE, statOrUndefined } from "./files/file_system.ts";
import {
  inspect,
  requireStore,
  requireUsable,
  WAL_SUFFIX,
} from "./files/inspect.ts";
import { KvStore } from "./kv_store.ts";
import type { StoreLocation } from "./location.ts";
import { retryWhileLocked } from "./retry.ts";
import { toStoreError } from "../store_error.ts";

/**
 * Opens a store to create plants, and probes it, within
 * {@link openMsMax}. A missing file is created.
 * @throws {StoreError}
 */
export function openStore(location: StoreLocation): Promise<KvStore> {
  // A read-only file opens without an error and fails at the first write.
  return open(location, prepareFile, (store) => store.probe());
}

/**
 * Opens an existing store to read or to remove plants, within
 * {@link openMsMax}.
 * @throws {StoreError}
 */
export function openExistingStore(location: StoreLocation): Promise<KvStore> {
  function prepare(path: string): boolean {
    requireStore(path);
    return false;
  }
  return open(location, prepare, async (store) => {
    // Deno's first writes to a file, and whatever follows them, wait without a
    // limit while another process has locked it.
    await store.read([0n]);
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
    if (location.kind === "file") {
      requireUsable(location.path);
      isNew = prepare(location.path) || isNew;
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
    return await retryWhileLocked(openMsMax(location), tryToOpen);
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Returns the time for a store to open: more if a killed one left a large log. */
export function openMsMax(location: StoreLocation): number {
  if (location.kind === "server") return STORE_OPEN_MS_MAX;
  const log = statOrUndefined(location.path + WAL_SUFFIX);
  const logMs = (log?.size ?? 0) / LOG_BYTES_PER_MS_MIN;
  return STORE_OPEN_MS_MAX + Math.round(logMs);
}

/** Creates the file of a store if there is none; returns whether it is new. */
function prepareFile(path: string): boolean {
  const found = inspect(path);
  if (found === "store") return false;
  if (found === "empty") return true;
  try {
    // SQLite would create it at a path that Deno refuses at the next start.
    Deno.openSync(path, NEW_FILE).close();
    return true;
  } catch (error) {
    // A restore or another start has created it meanwhile.
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return inspect(path) !== "store";
  }
}
