import assert from "node:assert/strict";
import type { KvStore } from "../../src/store/kv_store.ts";
import type { StoreLocation } from "../../src/store/location.ts";
import { openStore } from "../../src/store/open.ts";
import {
  StoreError,
  type StoreErrorKind,
} from "../../src/store/store_error.ts";
import { KV_ENV, KvServer, withServer } from "./kv_server.ts";
import { test } from "./tests.ts";

/** Returns the location of a store in a file. */
export function fileAt(
  path: string,
  setting = "--kv",
): StoreLocation {
  return { setting, name: path };
}

/** Returns the location of a store on a KV Connect server. */
export function serverAt(url: string): StoreLocation {
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  return { setting: "--kv", name: url, token };
}

/** Tests of a new store in a file. */
export const fileStore = {
  test(
    name: string,
    run: (opened: { store: KvStore; path: string }) => Promise<void>,
  ): void {
    test(name, async ({ store: path }) => {
      const { store } = await openStore(fileAt(path));
      await run({ store, path }).finally(() => store.close());
    });
  },
};

/** Tests of each kind of store, with the same data as another program sees it. */
export const eachStore = {
  test(
    name: string,
    run: (opened: { store: KvStore; kv: Deno.Kv }) => Promise<void>,
  ): void {
    fileStore.test(`${name}, in a file`, async ({ store, path }) => {
      using kv = await Deno.openKv(path);
      await run({ store, kv });
    });
    withServer.test(`${name}, on a KV Connect server`, async ({ directory }) => {
      await using server = await KvServer.start(directory.file("kv.db"));
      const { url } = server;
      const { store } = await openStore(serverAt(url));
      // The store has put the token into the environment.
      using kv = await Deno.openKv(url);
      await run({ store, kv }).finally(() => store.close());
    });
  },
};

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
