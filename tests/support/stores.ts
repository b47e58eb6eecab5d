import assert from "node:assert/strict";
import type { NewPlant } from "../../src/plant/plant.ts";
import type { DenoKv } from "../../src/store/entries.ts";
import { KvStore } from "../../src/store/kv_store.ts";
import {
  connectTo,
  openStore,
  type StoreLocation,
} from "../../src/store/open.ts";
import {
  StoreError,
  type StoreErrorKind,
  toStoreError,
} from "../../src/store/store_error.ts";
import { KV_ENV, KvServer } from "./kv_server.ts";
import { TemporaryDirectory } from "./temporary.ts";
import { inParallel } from "./waiting.ts";

/** Returns the setting of a store in a file. */
export function fileAt(path: string, setting = "--kv"): StoreLocation {
  return { kind: "file", name: path, setting };
}

/** Returns the setting of a store on a KV Connect server. */
export function serverAt(url: string): StoreLocation {
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  const setting = "--kv";
  return { kind: "server", name: url, setting, token };
}

/** The error of an operation that met the lock of another process. */
export const LOCKED: StoreError = toStoreError("database is locked");

/** Returns a store that `using` closes. */
export function closing(store: KvStore): KvStore & Disposable {
  return Object.assign(store, { [Symbol.dispose]: () => store.close() });
}

/**
 * Opens a store of which a test replaces some operations of Deno KV.
 * @param replace returns these operations, which can call the original ones
 */
export async function openWith(
  location: StoreLocation,
  replace: (kv: DenoKv) => Partial<DenoKv>,
): Promise<KvStore & Disposable> {
  const connection = await connectTo(location);
  const { kv } = connection;
  const original: DenoKv = {
    atomic: () => kv.atomic(),
    get: (key) => kv.get(key),
    getMany: (keys) => kv.getMany(keys),
    list: (range, options) => kv.list(range, options),
    close: () => kv.close(),
  };
  const replaced = { ...original, ...replace(original) };
  return closing(new KvStore({ ...connection, kv: replaced }));
}

/** A new store, open, in a file or on a KV Connect server. */
export class TestStore implements AsyncDisposable {
  private constructor(
    readonly store: KvStore,
    readonly location: StoreLocation,
    readonly resources: AsyncDisposableStack,
  ) {}

  static inFile(): Promise<TestStore> {
    return TestStore.#open((directory) => fileAt(directory.file("plants.db")));
  }

  static onServer(): Promise<TestStore> {
    return TestStore.#open(async (directory, resources) => {
      const file = directory.file("kv.db");
      const server = resources.use(await KvServer.start(file));
      return serverAt(server.url);
    });
  }

  static async #open(
    place: (
      directory: TemporaryDirectory,
      resources: AsyncDisposableStack,
    ) => StoreLocation | Promise<StoreLocation>,
  ): Promise<TestStore> {
    await using resources = new AsyncDisposableStack();
    const directory = resources.use(new TemporaryDirectory());
    const location = await place(directory, resources);
    const { store } = await openStore(location, true);
    resources.use(closing(store));
    return new TestStore(store, location, resources.move());
  }

  /** The path of the file, or the URL of the server. */
  get path(): string {
    return this.location.name;
  }

  /** Opens the same data as another program does. */
  async openKv(): Promise<Deno.Kv> {
    // The store has put the token of a server into the environment.
    const kv = await Deno.openKv(this.path);
    // Deno may write after the opening; its first operation waits for that.
    await kv.get(["plants"]);
    return kv;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resources.disposeAsync();
  }
}

/** Each kind of store, and the tools that it needs. */
export const STORES = [
  { where: "in a file", tools: [], open: TestStore.inFile },
  {
    where: "on a KV Connect server",
    tools: ["DENOKV"],
    open: TestStore.onServer,
  },
] as const;

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
export function isStoreError(
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
