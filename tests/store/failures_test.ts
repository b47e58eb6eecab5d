/** What a store does while it is locked, and once it is lost or damaged. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { DatabaseSync } from "node:sqlite";
import { ID_MAX, WRITE_MS_MAX } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { Committer } from "../../src/store/committer.ts";
import type { KvStore } from "../../src/store/kv_store.ts";
import {
  openExistingStore,
  openStore,
  type StoreLocation,
} from "../../src/store/open.ts";
import {
  changePlant,
  getPlant,
  listPlants,
  PAGE_KEYS,
  type PlantEntry,
} from "../../src/store/plants.ts";
import {
  corrupt,
  noAnswer,
  StoreError,
  type StoreErrorKind,
} from "../../src/store/store_error.ts";
import {
  destroyPage,
  makeUndecodable,
  PAGE_BYTES,
  pagesOf,
  StoreLock,
} from "../support/accidents.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { makeStore, newPlants, range, WHOLE } from "../support/plants.ts";
import {
  closing,
  fileAt,
  isStoreError,
  openWith,
  TestStore,
} from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { inTime } from "../support/waiting.ts";

/** Opens a store in a file that reports each commit that fails: it meets a lock. */
async function openReportingLock(
  path: string,
  meetsLock: () => void,
): Promise<KvStore & Disposable> {
  const store = await openWith(fileAt(path), (kv) => ({
    atomic() {
      const operation = kv.atomic();
      const commit = operation.commit.bind(operation);
      return Object.assign(operation, {
        async commit() {
          try {
            return await commit();
          } catch (error) {
            meetsLock();
            throw error;
          }
        },
      });
    },
  }));
  // Deno may write after the opening; its first operation waits for that.
  await store.probe();
  return store;
}

Deno.test("commit() and probe() meet the lock of another process at once, and write nothing", async () => {
  await using opened = await TestStore.inFile();
  const { store, path } = opened;
  await store.commit(newPlants([1n]));
  {
    using _lock = new StoreLock(path);
    // SQLite itself would wait for 5 s, each time, and block every commit meanwhile:
    // with 30 ids, this would take longer than WAIT_MS_MAX.
    await inTime(
      (async () => {
        for (const id of range(2n, 30)) {
          const commit = store.commit(newPlants([id]));
          await assert.rejects(commit, isStoreError("locked"));
          await assert.rejects(store.probe(), isStoreError("locked"));
        }
      })(),
      () => "a commit and a probe that do not wait for the lock",
    );
  }
  assert.deepEqual(await listed(store), { plants: newPlants([1n]) });
  store.verifyFiles();
  assert.equal(await store.commit(newPlants([2n])), "committed");
});

for (
  const [what, operate, result] of [
    [
      "a create",
      (store: KvStore) => {
        const listener = { committed() {}, commitFailed: assert.fail };
        const committer = new Committer({ store, listener });
        return committer.create({ id: 2n, plant: WHOLE });
      },
      "stored",
    ],
    [
      "changePlant()",
      (store: KvStore) => changePlant(store, 1n, WHOLE),
      "changed",
    ],
  ] as const
) {
  Deno.test(`${what} waits until another process releases the lock`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeStore(path);
    const met = Promise.withResolvers<void>();
    using store = await openReportingLock(path, met.resolve);
    using lock = new StoreLock(path);
    const waiting = operate(store);
    await inTime(met.promise, () => "it meets the lock");
    lock.release();
    assert.equal(await waiting, result);
  });
}

Deno.test("a create fails at its deadline while another process keeps the lock, and writes nothing", async () => {
  await using opened = await TestStore.inFile();
  const { store, path } = opened;
  const clock = new FakeClock();
  const errors: StoreError[] = [];
  const paused = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const listener = {
    committed() {},
    commitFailed: (error: StoreError) => void errors.push(error),
  };
  const pause = () => {
    paused.resolve();
    return released.promise;
  };
  const options = { store, listener, clock: clock.read, pause };
  const committer = new Committer(options);
  {
    using _lock = new StoreLock(path);
    const creating = committer.create({ id: 1n, plant: WHOLE });
    await paused.promise;
    clock.now = WRITE_MS_MAX;
    committer.expire();
    assert.equal(await creating, "failed");
    assert.deepEqual(errors, [noAnswer(WRITE_MS_MAX)]);
  }
  released.resolve();
  const [other = assert.fail()] = newPlants([2n]);
  assert.equal(await committer.create(other), "stored");
  assert.deepEqual(await listed(store), { plants: [other] });
});

/** Returns what a listing yields, and the kind of its error if it ends early. */
async function listed(store: KvStore, reverse = false) {
  const plants: PlantEntry[] = [];
  try {
    for await (const page of listPlants(store, undefined, reverse)) {
      plants.push(...page);
    }
  } catch (error) {
    assert.ok(error instanceof StoreError);
    return { plants, error: error.kind };
  }
  return { plants };
}

/** Plants on so many pages that some of them can be damaged. */
const PLANTS = range(1n, 300)
  .map((id) => ({ id, plant: { name: `Monstera ${id}`.padEnd(300) } }));

/** Returns the keys of a store as SQLite has them, in hexadecimal, in order. */
function keysIn(path: string): string[] {
  using database = new DatabaseSync(path);
  const rows = database.prepare("SELECT hex(k) AS k FROM kv ORDER BY k").all();
  return rows.map(({ k }) => String(k));
}

/** Returns the indices of keys whose values SQLite itself cannot read. */
function unreadableOf(keys: readonly string[], path: string): number[] {
  using database = new DatabaseSync(path);
  const select = database.prepare("SELECT v FROM kv WHERE k = unhex(?)");
  return keys.flatMap((key, i) => {
    try {
      return select.get(key) === undefined ? [i] : [];
    } catch {
      return [i];
    }
  });
}

/**
 * Makes a store of these plants, and damages each page in turn; yields the ids on
 * it, which SQLite itself cannot read any more.
 */
async function* damagedPages(path: string): AsyncGenerator<bigint[]> {
  await makeStore(path, PLANTS);
  const content = Deno.readFileSync(path);
  const keys = keysIn(path);
  // Deno reads the root, which is the first one, when it opens a store.
  for (const page of pagesOf(path, "kv").slice(1)) {
    Deno.writeFileSync(path, content);
    destroyPage(path, page);
    const unreadable = unreadableOf(keys, path);
    yield PLANTS.filter((_, i) => unreadable.includes(i)).map(({ id }) => id);
  }
}

Deno.test("listPlants() has every plant that is not on a damaged page, forward up to it and backward down to it", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  let pages = 0;
  for await (const ids of damagedPages(path)) {
    if (ids.length === 0) continue;
    pages++;
    using store = closing(await openExistingStore(fileAt(path)));
    const before = await listed(store);
    const after = await listed(store, true);
    assert.deepEqual([before.error, after.error], ["corrupt", "corrupt"]);
    const from = before.plants.length;
    const to = PLANTS.length - after.plants.length;
    assert.deepEqual(before.plants, PLANTS.slice(0, from));
    assert.deepEqual(after.plants, PLANTS.slice(to).toReversed());
    const missing = PLANTS.slice(from, to);
    assert.ok(missing.every(({ id }) => ids.includes(id)), `${ids}`);
  }
  assert.ok(pages > 20, `${pages} pages`);
});

Deno.test("listPlants() reads key by key after a read that failed once, to the end", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants(range(1n, 3 * PAGE_KEYS));
  await makeStore(path, plants);
  let pagesBefore = 1;
  using store = await openWith(fileAt(path), (kv) => ({
    list(range, options) {
      if (pagesBefore-- === 0) throw corrupt();
      return kv.list(range, options);
    },
  }));
  const pages = await Array.fromAsync(listPlants(store));
  assert.deepEqual(pages.flat(), plants);
  const singles = Array.from({ length: 2 * PAGE_KEYS }, () => 1);
  const lengths = pages.map(({ length }) => length);
  assert.deepEqual(lengths, [PAGE_KEYS, ...singles, 0]);
});

Deno.test("listPlants() ends if a page is in the place of another one, so that the ids run in a circle", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  for (
    const [id, other, reverse] of [[125, 20, false], [175, 290, true]] as const
  ) {
    await makeStore(path, PLANTS);
    const content = Buffer.from(Deno.readFileSync(path));
    const [to = 0, from = 0] = [id, other].map((it) => {
      const offset = content.indexOf(`Monstera ${it} `);
      return offset - offset % PAGE_BYTES;
    });
    content.copy(content, to, from, from + PAGE_BYTES);
    Deno.writeFileSync(path, content);
    using store = closing(await openExistingStore(fileAt(path)));
    const pages = listPlants(store, undefined, reverse);
    await assert.rejects(async () => {
      for (let i = 0; i < 10; i++) await pages.next();
    }, isStoreError("corrupt"));
    Deno.removeSync(path);
  }
});

/** Opens a store whose keys are listed as damage may list them: in any order. */
function openDisordered(
  location: StoreLocation,
  keysOf: (limit: number) => readonly Deno.KvKey[],
): Promise<KvStore & Disposable> {
  return openWith(location, () => ({
    async *list(_range, { limit = 0 }) {
      for (const key of keysOf(limit)) {
        yield await Promise.resolve({ key, value: WHOLE, versionstamp: "1" });
      }
    },
  }));
}

Deno.test("listPlants() has the plants before a key that is not beyond the last one, and ends", async () => {
  const first = ["plants", 1n];
  const second = ["plants", 2n];
  /** The keys of a page, whatever its range, and the ids that are listed. */
  const cases: readonly (readonly [
    keys: readonly Deno.KvKey[],
    reverse: boolean,
    ids: readonly bigint[],
  ])[] = [
    [[first, first], false, [1n]],
    [[second, first], false, [2n]],
    [[first, second], true, [1n]],
    [[["plants", ID_MAX + 1n]], false, []],
  ];
  await using opened = await TestStore.inFile();
  for (const [keys, reverse, ids] of cases) {
    using store = await openDisordered(opened.location, () => keys);
    const { plants, error } = await listed(store, reverse);
    assert.deepEqual(plants.map(({ id }) => id), ids);
    assert.equal(error, "corrupt");
  }
});

for (
  const [what, key] of [
    ["the key of a plant", ["plants", 1n]],
    ["a longer key of another program", ["plants", 1n, "note"]],
  ] as const
) {
  Deno.test(`listPlants() ends if it finds ${what} over and over`, async () => {
    await using opened = await TestStore.inFile();
    for (const reverse of [false, true]) {
      using store = await openDisordered(opened.location, (limit) => {
        // Then the listing reads key by key.
        if (limit > 1) throw corrupt();
        return [key];
      });
      const { plants, error } = await listed(store, reverse);
      assert.equal(plants.length, key.length === 2 ? 1 : 0);
      assert.equal(error, "corrupt");
    }
  });
}

/** Each operation of a store that can find that it is lost or damaged. */
const OPERATIONS = {
  commit: (store, id) => store.commit(newPlants([id])),
  read: (store, id) => store.read([id]),
  probe: (store) => store.probe(),
  verifyFiles: (store) => store.verifyFiles(),
  remove: (store, id) => changePlant(store, id, undefined),
  replace: (store, id) => changePlant(store, id, WHOLE),
  get: (store, id) => getPlant(store, id),
} as const satisfies Readonly<
  Record<string, (store: KvStore, id: bigint) => unknown>
>;

type OperationName = keyof typeof OPERATIONS;

/** Asserts that an operation fails, and then each that could be acknowledged. */
async function assertEnds(
  store: KvStore,
  name: OperationName,
  id: bigint,
  kind: StoreErrorKind,
): Promise<void> {
  const failed = async () => await OPERATIONS[name](store, id);
  await assert.rejects(failed, isStoreError(kind));
  for (const [later, run] of Object.entries(OPERATIONS)) {
    for (const id of [1n, 1_000n]) {
      const failed = async () => await run(store, id);
      await assert.rejects(failed, isStoreError(kind), later);
    }
  }
  // Nothing was removed or stored, and both ends can still be listed.
  assert.equal((await listed(store)).plants[0]?.id, 1n);
  const { plants: atEnd } = await listed(store, true);
  assert.ok(atEnd.every(({ id }) => id !== 1_000n));
}

for (const name of ["commit", "read", "remove", "replace", "get"] as const) {
  Deno.test(`nothing is acknowledged once ${name}() has found damage`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    for await (const ids of damagedPages(path)) {
      if (ids.includes(150n) && ids.length < 20) break;
    }
    const opened = await openStore(fileAt(path), true);
    using store = closing(opened.store);
    assert.equal(await store.commit(newPlants([2_000n])), "committed");
    await assertEnds(store, name, 150n, "corrupt");
  });
}

for (
  const [name, suffix] of [
    ["commit", ""],
    ["read", ""],
    ["remove", ""],
    ["replace", ""],
    ["get", ""],
    ["probe", "-shm"],
    ["verifyFiles", "-wal"],
  ] as const
) {
  Deno.test(`nothing is acknowledged once ${name}() has found a file gone, also when it is back, and close() keeps its log`, async () => {
    await using opened = await TestStore.inFile();
    const { store, path } = opened;
    await store.commit(newPlants([1n, 2n]));
    const [file, away] = [path + suffix, path + suffix + ".away"];
    Deno.renameSync(file, away);
    await assert.rejects(
      async () => await OPERATIONS[name](store, 2n),
      isStoreError("lost"),
    );
    Deno.renameSync(away, file);
    await assertEnds(store, name, 2n, "lost");
    store.close();
    assert.ok(Deno.statSync(`${path}-wal`).isFile, "SQLite has deleted it");
  });
}

Deno.test("a store that was found corrupt and is then deleted is lost, so that its plants can be saved, and close() leaves its files alone", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path, newPlants([1n]));
  // Reads of an intact database fail.
  const store = await openWith(fileAt(path), () => ({
    getMany: () => Promise.reject(new TypeError("malformed")),
  }));
  await assert.rejects(store.read([1n]), isStoreError("corrupt"));
  assert.throws(() => store.verifyFiles(), isStoreError("corrupt"));

  Deno.removeSync(`${path}-wal`);
  assert.throws(() => store.verifyFiles(), isStoreError("lost"));
  await assert.rejects(store.commit(newPlants([2n])), isStoreError("lost"));
  assert.deepEqual((await listed(store)).plants.map(({ id }) => id), [1n]);

  Deno.writeTextFileSync(`${path}-wal`, "of another store");
  store.close();
  assert.equal(Deno.readTextFileSync(`${path}-wal`), "of another store");
});

Deno.test("operations fail that are running when a file is found gone", async () => {
  await using opened = await TestStore.inFile();
  const { store, path } = opened;
  const running = [
    store.commit(newPlants([1n])),
    store.read([1n]),
    store.probe(),
    getPlant(store, 1n),
    changePlant(store, 1n, undefined),
    changePlant(store, 1n, WHOLE),
  ]
    .map((it) => assert.rejects(it, isStoreError("lost")));
  Deno.removeSync(`${path}-wal`);
  assert.throws(() => store.verifyFiles(), isStoreError("lost"));
  await Promise.all(running);
});

Deno.test("a value that cannot be decoded occupies its id, ends a listing, and can be removed", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const plants = newPlants([1n, 2n, 3n, 4n, 100n]);
  await makeStore(path, plants);
  await makeUndecodable(path, [3n]);
  const opened = await openStore(fileAt(path), true);
  using store = closing(opened.store);
  const values = new Map<bigint, Plant | null>(
    plants.map(({ id, plant }) => [id, id === 3n ? null : plant]),
  );
  // A run of ids, some apart, and those around it.
  for (const ids of [[1n, 2n, 3n, 4n, 100n], [3n, 100n], [1n, 2n, 4n, 5n]]) {
    const found = await store.read(ids);
    for (const id of ids) assert.deepEqual(found.get(id), values.get(id));
  }
  for (const id of [1n, 3n, 5n]) {
    assert.deepEqual(await getPlant(store, id), values.get(id));
  }
  const error = "newer format";
  assert.deepEqual(await listed(store), {
    plants: plants.slice(0, 2),
    error,
  });
  const after = plants.slice(3).toReversed();
  assert.deepEqual(await listed(store, true), { plants: after, error });

  assert.equal(await store.commit(newPlants([3n, 5n])), "exists");
  assert.equal(await store.commit(newPlants([5n])), "committed");
  for (const change of ["changed", "absent"]) {
    assert.equal(await changePlant(store, 3n, undefined), change);
  }
  assert.equal(await store.commit(newPlants([3n])), "committed");
});
