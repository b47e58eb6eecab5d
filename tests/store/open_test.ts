import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { LOG_BYTES_PER_MS_MIN, STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import { KvStore } from "../../src/store/kv_store.ts";
import type { StoreLocation } from "../../src/store/location.ts";
import { openExistingStore, openStore } from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { overwrite, PAGE_BYTES } from "../support/damage.ts";
import { makeStore } from "../support/places.ts";
import { newPlants } from "../support/plants.ts";
import { replaced } from "../support/replaced.ts";
import { fileAt, storeError } from "../support/stores.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";

/** The plants of the stores that {@link makeStore} makes. */
const PLANTS = newPlants([1n]);

/** Both ways to open a store. */
const OPEN: readonly ((location: StoreLocation) => Promise<KvStore>)[] = [
  async (location) => (await openStore(location)).store,
  openExistingStore,
];

/** Opens a store to read everything in it. */
async function plantsIn(path: string) {
  const store = await openExistingStore(fileAt(path));
  try {
    return (await Array.fromAsync(store.list())).flat();
  } finally {
    store.close();
  }
}

Deno.test("openStore() creates a store in a missing or an empty file, for its user only, which openExistingStore() opens; both leave no file beside it", async () => {
  for (const isEmpty of [false, true]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    if (isEmpty) Deno.createSync(path).close();
    for (const isNew of [true, false]) {
      const opened = await openStore(fileAt(path));
      assert.equal(opened.isNew, isNew);
      await opened.store.commit(PLANTS);
      opened.store.close();
      assert.deepEqual(directory.names(), ["plants.db"]);
      assert.deepEqual(await plantsIn(path), PLANTS);
      assert.deepEqual(directory.names(), ["plants.db"]);
    }
    const { mode } = Deno.statSync(path);
    if (!isEmpty) assert.equal((mode ?? 0) & 0o777, 0o600);
  }
});

test("openStore() refuses a missing directory, and openExistingStore() a missing or an empty file; both create nothing", async ({ directory, store: path }) => {
  const missing = storeError("path", /^no such file/i);
  for (const open of OPEN) {
    await assert.rejects(open(fileAt(directory.file("a/plants.db"))), missing);
  }
  await assert.rejects(openExistingStore(fileAt(path)), missing);
  assert.deepEqual(directory.names(), []);
  Deno.createSync(path).close();
  const empty = storeError("path", "it is empty");
  await assert.rejects(openExistingStore(fileAt(path)), empty);
  assert.deepEqual(Deno.readFileSync(path), new Uint8Array());
});

test("openStore() takes a store for new that it creates before it meets a lock", async ({ store: path }) => {
  using once = replaced(KvStore.prototype, "probe", () => {
    once[Symbol.dispose]();
    return Promise.reject(new StoreError("locked"));
  });
  const { store, isNew } = await openStore(fileAt(path));
  assert.equal(isNew, true);
  store.close();
});

test("a store opens as soon as another process releases the lock", async ({ store: path }) => {
  await makeStore(path, PLANTS);
  for (const open of OPEN) {
    const lock = new StoreLock(path);
    const opening = open(fileAt(path));
    const early = await Promise.race([opening, sleep(200, "waits")]);
    lock[Symbol.dispose]();
    const store = await opening;
    assert.equal(early, "waits");
    store.close();
  }
});

test("openStore() fails if another process keeps the lock, later if a killed service has left a large log", async ({ store: path }) => {
  for (const logMs of [0, 5_000]) {
    await makeStore(path, PLANTS);
    if (logMs > 0) {
      Deno.createSync(`${path}-wal`).close();
      Deno.truncateSync(`${path}-wal`, logMs * LOG_BYTES_PER_MS_MIN);
    }
    let nowMs = 0;
    using _clock = replaced(performance, "now", () => nowMs += 1_000);
    // With a real lock, Deno's own first writes would wait until its end.
    const locked = () => Promise.reject(new StoreError("locked"));
    using _lock = replaced(KvStore.prototype, "probe", locked);
    await assert.rejects(openStore(fileAt(path)), storeError("locked"));
    assert.equal(nowMs, 1_000 + STORE_OPEN_MS_MAX + logMs);
  }
});

test("a store opens although one read fails, but not if it is damaged", async ({ store: path }) => {
  await makeStore(path, PLANTS);
  for (const open of OPEN) {
    using once = replaced(KvStore, "open", () => {
      once[Symbol.dispose]();
      return Promise.reject(new StoreError("corrupt"));
    });
    await open(fileAt(path));
  }
  // A page that Deno reads when it opens a store.
  overwrite(path, 5 * PAGE_BYTES, PAGE_BYTES);
  for (const open of OPEN) {
    await assert.rejects(open(fileAt(path)), storeError("corrupt"));
  }
});

test("a store opens that was killed while a journal was beside it, which is rolled back", async ({ directory, store: path }) => {
  for (const open of OPEN) {
    await makeStore(path, PLANTS);
    const killed = directory.file("killed.db");
    {
      // As a process that is killed while it enters WAL mode.
      using database = new DatabaseSync(path);
      database.exec(
        `PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;
         BEGIN; UPDATE kv SET v = zeroblob(100000)`,
      );
      for (const suffix of ["", "-journal"]) {
        Deno.copyFileSync(path + suffix, killed + suffix);
      }
    }
    (await open(fileAt(killed))).close();
    assert.deepEqual(await plantsIn(killed), PLANTS);
    assert.deepEqual(directory.names(), ["killed.db", "plants.db"]);
  }
});
