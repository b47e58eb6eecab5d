import assert from "node:assert/strict";
import type { StoreSetting } from "../../src/config/settings.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import type { KvStore } from "../../src/store/kv_store.ts";
import { openStore, type StoreLocation } from "../../src/store/open.ts";
import {
  StoreError,
  type StoreErrorKind,
  toStoreError,
} from "../../src/store/store_error.ts";
import { KV_ENV, KvServer, withServer } from "./kv_server.ts";
import { test } from "./tests.ts";
import { inParallel } from "./waiting.ts";

const CREATE = "--kv-create";

/** Returns the setting of a store in a file. */
export function fileAt(path: string, setting = "--kv"): StoreSetting {
  return { setting, createSetting: CREATE, kind: "file", name: path };
}

/** Returns the setting of a store on a KV Connect server. */
export function serverAt(url: string): StoreSetting {
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  const setting = "--kv";
  return { setting, createSetting: CREATE, kind: "server", name: url, token };
}

/** The error of an operation that met the lock of another process. */
export const LOCKED: StoreError = toStoreError("database is locked");

/** Opens a new store for a test. */
async function runWithStore(
  location: StoreSetting,
  run: (store: KvStore) => Promise<void>,
): Promise<void> {
  const { store } = await openStore(location, true);
  try {
    await run(store);
  } finally {
    store.close();
  }
}

/** Tests of a new store in a file. */
export const fileStore = {
  test(
    name: string,
    run: (opened: { store: KvStore; path: string }) => Promise<void>,
  ): void {
    test(name, async ({ store: path }) => {
      await runWithStore(fileAt(path), (store) => run({ store, path }));
    });
  },
};

/** Tests of each kind of store, with the same data as another program sees it. */
export const eachStore = {
  test(
    name: string,
    run: (
      opened: { store: KvStore; kv: Deno.Kv; location: StoreLocation },
    ) => Promise<void>,
  ): void {
    fileStore.test(`${name}, in a file`, async ({ path, store }) => {
      using kv = await Deno.openKv(path);
      await run({ store, kv, location: fileAt(path) });
    });
    withServer.test(`${name}, on a KV Connect server`, async ({ directory }) => {
      await using server = await KvServer.start(directory.file("kv.db"));
      const location = serverAt(server.url);
      await runWithStore(location, async (store) => {
        // The store has put the token into the environment.
        using kv = await Deno.openKv(server.url);
        await run({ store, kv, location });
      });
    });
  },
};

/** Commits any number of plants. */
export async function commitAll(
  store: KvStore,
  plants: readonly NewPlant[],
): Promise<void> {
  const batchSize = store.commitBounds.plantsMax;
  const batches: NewPlant[][] = [];
  for (let i = 0; i < plants.length; i += batchSize) {
    batches.push(plants.slice(i, i + batchSize));
  }
  await inParallel(batches, async (batch) => {
    assert.equal(await store.commit(batch), "committed");
  }, 4);
}

/** Returns a check of an error, for `assert.throws()` and `assert.rejects()`. */
export function storeError(
  kind: StoreErrorKind,
  message: string | RegExp = /./,
): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.equal(error.kind, kind);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  };
}
