import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { KvStore } from "../../src/store/kv_store.ts";
import { listPlants } from "../../src/store/listing.ts";
import {
  openExistingStore,
  openMsMax,
  openStore,
} from "../../src/store/open.ts";
import { LOG_BYTES_PER_MS_MIN, STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import {
  StoreError,
  type StoreErrorKind,
} from "../../src/store/store_error.ts";
import {
  execute,
  leaveJournal,
  makeNewer,
  overwrite,
  PAGE_BYTES,
  writeText,
} from "../support/damage.ts";
import { replaced } from "../support/replaced.ts";
import { range } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import { makeStore, PLANT } from "../support/places.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { fileAt, fileStore, storeError } from "../support/stores.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { test, testsWith } from "../support/tests.ts";

const onSmallDisk = testsWith(() => new SmallDisk(4), canMount());

/** The plants of the stores that {@link makeStore} makes. */
const PLANTS = [{ id: 1n, plant: PLANT }];

test("openMsMax() grows with the log of a killed service", ({ store: path }) => {
  const location = fileAt(path);
  assert.equal(openMsMax(location), STORE_OPEN_MS_MAX);
  Deno.createSync(`${path}-wal`).close();
  Deno.truncateSync(`${path}-wal`, 5_000 * LOG_BYTES_PER_MS_MIN);
  assert.equal(openMsMax(location), STORE_OPEN_MS_MAX + 5_000);
});

/** What is wrong with a store of one plant, and the kind of the error. */
const DAMAGE: readonly [kind: StoreErrorKind, (path: string) => void][] = [
  ["path", writeText],
  // Deno panics if it cannot write the file.
  ["path", (path) => Deno.mkdirSync(`${path}-shm`)],
  ["corrupt", (path) => overwrite(path, 1_024)],
  // Deno reads these pages, and panics.
  ...[6, 8, 9].map((page): typeof DAMAGE[number] => [
    "corrupt",
    (path) => overwrite(path, (page - 1) * PAGE_BYTES, PAGE_BYTES),
  ]),
  // Values of another type in what Deno reads.
  ...[
    "UPDATE kv SET expiration_ms = 'text'",
    "INSERT INTO queue VALUES (x'00', 'id', x'00', '[]', '[]')",
    "INSERT INTO queue_running VALUES (1, x'00', x'00', '[]', '[]')",
  ].map((sql): typeof DAMAGE[number] => [
    "corrupt",
    (path) => execute(path, sql),
  ]),
];

Deno.test("openStore() and openExistingStore() refuse what is no store, or corrupt, or has a file that cannot be written, and keep it", async () => {
  for (const [kind, damage] of DAMAGE) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeStore(path);
    damage(path);
    const content = Deno.readFileSync(path);
    const names = directory.names();
    for (const open of [openStore, openExistingStore]) {
      await assert.rejects(open(fileAt(path)), storeError(kind));
    }
    assert.deepEqual(directory.names(), names);
    assert.deepEqual(Deno.readFileSync(path), content);
  }
});

test("openStore() refuses plants of a newer Deno, which openExistingStore() opens to be removed or exported", async ({ directory, store: path }) => {
  await makeStore(path);
  makeNewer(path);
  await assert.rejects(openStore(fileAt(path)), storeError("newer format"));
  (await openExistingStore(fileAt(path))).close();
  assert.deepEqual(directory.names(), ["plants.db"]);
});

test("openStore() refuses a missing directory, and openExistingStore() a missing file; both create nothing", async ({ directory }) => {
  const path = directory.file("missing/plants.db");
  for (const open of [openStore, openExistingStore]) {
    const missing = storeError("path", /^no such file/i);
    await assert.rejects(open(fileAt(path)), missing);
  }
  assert.deepEqual(directory.names(), []);
});

test("openStore() does not take a store for new that a restore puts there before it creates one", async ({ directory, store: path }) => {
  const restored = directory.file("restored.db");
  await makeStore(restored);
  const { openSync } = Deno;
  using _ = replaced(Deno, "openSync", (file, options) => {
    if (options?.createNew) Deno.renameSync(restored, path);
    return openSync(file, options);
  });
  const store = await openStore(fileAt(path));
  assert.equal(store.isNew, false);
  assert.deepEqual(await Array.fromAsync(listPlants(store)), [PLANTS]);
  store.close();
});

test("openStore() takes a store for new that it creates before it meets a lock", async ({ store: path }) => {
  using once = replaced(KvStore.prototype, "probe", () => {
    once[Symbol.dispose]();
    return Promise.reject(new StoreError("locked"));
  });
  const store = await openStore(fileAt(path));
  assert.equal(store.isNew, true);
  store.close();
});

Deno.test("openStore() creates a store in a missing or an empty file, which openExistingStore() reads; both leave no file beside it", async () => {
  for (const isEmpty of [false, true]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    if (isEmpty) Deno.createSync(path).close();
    const store = await openStore(fileAt(path));
    assert.equal(store.isNew, true);
    // Others may not read the plants.
    const { mode } = Deno.statSync(path);
    if (!isEmpty) assert.equal((mode ?? 0) & 0o777, 0o600);
    await store.commit(PLANTS);
    store.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
    const reader = await openExistingStore(fileAt(path));
    assert.equal(reader.isNew, false);
    assert.deepEqual(await Array.fromAsync(listPlants(reader)), [PLANTS]);
    reader.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
});

fileStore.test("commit() is locked and probe() fails while another process holds the lock, and write nothing", async ({ store, path }) => {
  {
    using _lock = new StoreLock(path);
    assert.equal(await store.commit(PLANTS), "locked");
    await assert.rejects(store.probe(), storeError("locked"));
  }
  assert.deepEqual(await store.read([1n]), new Map());
  await store.probe();
  assert.equal(await store.commit(PLANTS), "committed");
});

fileStore.test("commit() does not wait for a probe while another process holds the lock", async ({ store, path }) => {
  let id = 0n;
  await eventually((result) => result === "locked", async () => {
    const lock = new StoreLock(path);
    const probed = store.probe().catch(() => {});
    const committed = store.commit([{ id: ++id, plant: PLANT }]);
    // SQLite itself would wait until the lock is released, and write both. On a
    // busy machine the commit may start as late, but not every time.
    await sleep(100);
    lock[Symbol.dispose]();
    await probed;
    return committed;
  });
});

/** Asserts that every create, read and probe of a lost store fails. */
async function assertLost(store: KvStore): Promise<void> {
  const lost = storeError("lost");
  await assert.rejects(store.commit(PLANTS), lost);
  await assert.rejects(store.read([1n]), lost);
  await assert.rejects(store.probe(), lost);
  assert.ok(lost(store.checkFiles()));
}

/** Each operation, which can be the first to find that the store is lost. */
const OPERATIONS: Readonly<Record<string, (store: KvStore) => unknown>> = {
  commit: (store) => store.commit([{ id: 2n, plant: PLANT }]),
  read: (store) => store.read([1n]),
  remove: (store) => store.remove(1n),
  probe: (store) => store.probe(),
};

for (const [name, run] of Object.entries(OPERATIONS)) {
  fileStore.test(`${name}() finds that the database file is gone, and every later operation fails`, async ({ store, path }) => {
    await store.commit(PLANTS);
    Deno.renameSync(path, `${path}.away`);
    await assert.rejects(async () => await run(store), storeError("lost"));
    await assertLost(store);
    await assert.rejects(store.remove(1n), storeError("lost"));
  });
}

fileStore.test("commit(), read() and probe() fail once checkFiles() has found the log gone", async ({ store, path }) => {
  Deno.removeSync(`${path}-wal`);
  storeError("lost")(store.checkFiles());
  await assertLost(store);
  // Not even into the files that are open: another process may use them.
  assert.deepEqual(await Array.fromAsync(listPlants(store)), [[]]);
});

fileStore.test("probe() fails if checkFiles() finds the log gone meanwhile", async ({ store, path }) => {
  const probed = assert.rejects(store.probe(), storeError("lost"));
  Deno.removeSync(`${path}-wal`);
  store.checkFiles();
  await probed;
});

test("a store that was found corrupt accepts no further write, and does not recover", async ({ store: path }) => {
  const plants = range(1n, 1_000)
    .map((id) => ({ id, plant: { name: "x".repeat(500) } }));
  await makeStore(path, plants);
  // A page with plants, which only a listing reads.
  overwrite(path, 100 * PAGE_BYTES, PAGE_BYTES);
  const store = await openStore(fileAt(path));
  assert.equal(await store.commit([{ id: 2_000n, plant: PLANT }]), "committed");
  const corrupt = storeError("corrupt");
  await assert.rejects(Array.fromAsync(listPlants(store)), corrupt);
  const created = store.commit([{ id: 2_001n, plant: PLANT }]);
  await assert.rejects(created, corrupt);
  await assert.rejects(store.probe(), corrupt);
  corrupt(store.checkFiles());
  store.close();
});

test("openStore() and openExistingStore() wait while another process holds the lock", async ({ store: path }) => {
  await makeStore(path);
  for (const open of [openStore, openExistingStore]) {
    const lock = new StoreLock(path);
    const opening = open(fileAt(path));
    const early = await Promise.race([opening, sleep(200, "waits")]);
    lock[Symbol.dispose]();
    const store = await opening;
    assert.equal(early, "waits");
    assert.deepEqual(await store.read([1n]), new Map([[1n, PLANT]]));
    store.close();
  }
});

Deno.test("openStore() and openExistingStore() open a store that a killed process left with a journal, and roll it back", async () => {
  for (const open of [openStore, openExistingStore]) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeStore(path);
    // As an earlier version that was killed while it entered WAL mode.
    leaveJournal(path, "UPDATE kv SET v = zeroblob(100000)");
    const store = await open(fileAt(path));
    assert.deepEqual(await Array.fromAsync(listPlants(store)), [PLANTS]);
    store.close();
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
});

test("openStore() at the same time by several callers creates one store", async ({ directory, store: path }) => {
  const openings = Array.from({ length: 4 }, () => openStore(fileAt(path)));
  const stores = await Promise.all(openings);
  assert.ok(stores.some(({ isNew }) => isNew));
  const results = [];
  for (const store of stores) results.push(await store.commit(PLANTS));
  assert.deepEqual(results, ["committed", "exists", "exists", "exists"]);
  for (const store of stores) store.close();
  assert.deepEqual(directory.names(), ["plants.db"]);
});

onSmallDisk.test("openStore() names what cannot be written: a file on a read-only file system, a directory without an inode for the log", async (disk) => {
  const path = disk.file("plants.db");
  await makeStore(path);
  disk.remount("ro");
  for (const open of [openStore, openExistingStore]) {
    const message = /^Read-only file system .*: \S+plants\.db$/;
    await assert.rejects(open(fileAt(path)), storeError("denied", message));
  }
  // The root and the store.
  disk.remount("rw,nr_inodes=2");
  const full = /^No space left on device \(os error 28\): \S+/;
  await assert.rejects(openStore(fileAt(path)), storeError("other", full));
  disk.remount("nr_inodes=10");
  (await openStore(fileAt(path))).close();
});
