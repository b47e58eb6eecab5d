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
import { KV_ENV, KvServer } from "./kv_server.ts";
import { isMissing } from "./needs.ts";
import { TemporaryDirectory } from "./temporary.ts";
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

/** A new store in a file, open for a test. */
export class FileStore implements Disposable {
  readonly #directory: TemporaryDirectory;

  private constructor(
    directory: TemporaryDirectory,
    readonly path: string,
    readonly store: KvStore,
  ) {
    this.#directory = directory;
  }

  static async open(): Promise<FileStore> {
    const directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const { store } = await openStore(fileAt(path), true);
    return new FileStore(directory, path, store);
  }

  [Symbol.dispose](): void {
    this.store.close();
    this.#directory[Symbol.dispose]();
  }
}

/** A new store, open for a test, and the connection of another program to it. */
interface SharedStore extends AsyncDisposable {
  readonly location: StoreLocation;
  readonly store: KvStore;
  readonly kv: Deno.Kv;
}

async function openInFile(): Promise<SharedStore> {
  const file = await FileStore.open();
  const { path, store } = file;
  const kv = await Deno.openKv(path);
  // Waits for Deno's first writes, which would lock the store.
  await kv.get(["plants"]);
  return {
    location: fileAt(path),
    store,
    kv,
    [Symbol.asyncDispose]() {
      kv.close();
      file[Symbol.dispose]();
      return Promise.resolve();
    },
  };
}

async function openOnServer(): Promise<SharedStore> {
  const directory = new TemporaryDirectory();
  const server = await KvServer.start(directory.file("kv.db"));
  const location = serverAt(server.url);
  const { store } = await openStore(location, true);
  // The store has put the token into the environment.
  const kv = await Deno.openKv(server.url);
  return {
    location,
    store,
    kv,
    async [Symbol.asyncDispose]() {
      kv.close();
      store.close();
      await server[Symbol.asyncDispose]();
      directory[Symbol.dispose]();
    },
  };
}

/** Each kind of store. */
export const STORES = [
  { where: "in a file", ignore: false, open: openInFile },
  {
    where: "on a KV Connect server",
    ignore: isMissing("DENOKV"),
    open: openOnServer,
  },
];

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
