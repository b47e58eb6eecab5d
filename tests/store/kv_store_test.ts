import assert from "node:assert/strict";
import {
  BODY_BYTES_MAX,
  COMMIT_CHARS_MAX,
  ID_MAX,
  ID_MIN,
  LIST_KEYS_MAX,
  PAGE_KEYS,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { countChars } from "../../src/plant/plant.ts";
import type { KvStore, Listed } from "../../src/store/kv_store.ts";
import { entriesOf } from "../support/entries.ts";
import { newPlants, range, WHOLE } from "../support/plants.ts";
import { Random } from "../support/random.ts";
import { replaced } from "../support/replaced.ts";
import { eachStore, fileStore, storeError } from "../support/stores.ts";
import { drawId } from "../support/transfer.ts";
import { inParallel } from "../support/waiting.ts";

/** Fills a body; one "ж" makes V8 store all characters with two bytes. */
const LARGEST: Plant = {
  name: "a".repeat(BODY_BYTES_MAX - 'xx{"id":1,"name":""}'.length) + "ж",
};

/** Ids at which a number that is not exact, or not signed, would differ. */
const IDS = [
  ...[ID_MIN, ID_MIN + 1n, -(2n ** 53n) - 1n, -(2n ** 53n), -(2n ** 32n)],
  ...[-256n, -255n, -1n, 0n, 1n, 255n, 256n],
  ...[2n ** 32n, 2n ** 53n, 2n ** 53n + 1n, ID_MAX - 1n, ID_MAX],
];

/** Commits any number of plants. */
async function commitAll(
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

/** Lists the plants above an id, by default all, in the order of a listing. */
async function list(
  store: KvStore,
  after?: bigint,
  reverse = false,
): Promise<Listed[]> {
  return (await Array.fromAsync(store.list(after, reverse))).flat();
}

eachStore.test("commit() writes plants that another program can read", async ({ store, kv }) => {
  const plants: NewPlant[] = [
    { id: 1n, plant: WHOLE },
    { id: -2n, plant: { name: "" } },
    { id: 3n, plant: { name: "Олива\0🌿\n", tag: "" } },
  ];
  assert.equal(await store.commit(plants), "committed");
  assert.deepEqual(await entriesOf(kv), [
    [["plants", -2n], { name: "" }],
    [["plants", 1n], WHOLE],
    [["plants", 3n], { name: "Олива\0🌿\n", tag: "" }],
  ]);
  store.checkFiles();
});

eachStore.test("commit() writes nothing if one id exists", async ({ store, kv }) => {
  await store.commit([{ id: 5n, plant: WHOLE }]);
  await kv.set(["plants", 6n], "not a plant");
  const entries = await entriesOf(kv);
  for (const id of [5n, 6n]) {
    const batch = newPlants([1n, 2n, 8n, 9n]).toSpliced(2, 0, {
      id,
      plant: WHOLE,
    });
    assert.equal(await store.commit(batch), "exists");
    assert.deepEqual(await entriesOf(kv), entries);
  }
});

eachStore.test("every id of int64 is exact, and listed in order and in reverse, all or those above an id", async ({ store }) => {
  const plants = newPlants(IDS);
  await commitAll(store, plants);
  const found = await store.read(IDS);
  for (const { id, plant } of plants) assert.deepEqual(found.get(id), plant);
  for (const after of [undefined, ...IDS, 2n]) {
    const above = plants.filter(({ id }) => after === undefined || id > after);
    assert.deepEqual(await list(store, after), above);
    assert.deepEqual(await list(store, after, true), above.toReversed());
  }
});

eachStore.test("list() has pages of PAGE_KEYS plants until one is shorter", async ({ store }) => {
  for (const end of [PAGE_KEYS, 2 * PAGE_KEYS + 1]) {
    const plants = newPlants(range(1n, end));
    await commitAll(store, plants.slice((await list(store)).length));
    for (const reverse of [false, true]) {
      const pages = await Array.fromAsync(store.list(undefined, reverse));
      const expected = reverse ? plants.toReversed() : plants;
      assert.deepEqual(pages.flat(), expected);
      const lengths = pages.map(({ length }) => length);
      const full = Array(Math.floor(end / PAGE_KEYS)).fill(PAGE_KEYS);
      assert.deepEqual(lengths, [...full, end % PAGE_KEYS]);
    }
  }
});

eachStore.test("commit() takes the most plants that COMMIT_CHARS_MAX allows, the largest and as many as possible", async ({ store }) => {
  const chars = Math.floor(COMMIT_CHARS_MAX / store.commitBounds.plantsMax);
  const many = { name: "ж".repeat(Math.min(chars, LARGEST.name.length)) };
  for (const [first, plant] of [[ID_MIN, LARGEST], [0n, many]] as const) {
    const count = Math.floor(COMMIT_CHARS_MAX / countChars(plant));
    const ids = range(first, Math.min(store.commitBounds.plantsMax, count));
    const plants = ids.map((id) => ({ id, plant }));
    assert.equal(await store.commit(plants), "committed");
    const found = await store.read(ids);
    for (const id of ids) assert.deepEqual(found.get(id), plant);
  }
});

eachStore.test("read() finds ids in sequences, also longer than one listing, with gaps, at both ends and far apart", async ({ store, kv }) => {
  const random = new Random(1);
  const randomIds = Array.from({ length: 100 }, () => drawId(random));
  const cases: bigint[][] = [
    [],
    [5n],
    range(0n, 100),
    range(-50n, 100),
    range(0n, 30).map((i) => -7n + 4n * i),
    range(0n, 30).map((i) => -7n + 5n * i),
    range(ID_MIN, 20),
    range(ID_MAX - 19n, 20),
    [...range(ID_MIN, 4), ...range(ID_MAX - 3n, 4), ...range(-2n, 4)],
    [1n, 2n, 3n, 50n, 51n, 52n, 53n, 70n, 90n, 94n, 98n, 102n],
    range(10n, 4).toReversed(),
    [-30n, ...range(5n, 4)],
    range(-400n, LIST_KEYS_MAX + 300),
    randomIds,
  ];
  const stored = new Map<bigint, Plant>();
  for (const ids of cases) {
    for (const { id, plant } of newPlants(ids)) {
      if (random.chance(0.5)) stored.set(id, plant);
    }
  }
  await commitAll(store, [...stored].map(([id, plant]) => ({ id, plant })));
  assert.equal((await entriesOf(kv)).length, stored.size);

  for (const ids of cases) {
    const found = await store.read(ids);
    for (const id of ids) assert.deepEqual(found.get(id), stored.get(id));
    // Others may be found between neighbors, but a wide range has too many.
    for (const [id, plant] of found) {
      assert.deepEqual(plant, stored.get(id));
      assert.ok(ids.some((it) => it - id >= -4n && it - id <= 4n), `${id}`);
    }
  }
});

eachStore.test("probe() leaves nothing behind", async ({ store, kv }) => {
  await store.probe();
  assert.deepEqual(await entriesOf(kv), []);
});

fileStore.test("probe() writes, also if another program has stored something of that name", async ({ store, path }) => {
  using kv = await Deno.openKv(path);
  await kv.set(["probe"], "of another program");
  const { size } = Deno.statSync(`${path}-wal`);
  await store.probe();
  assert.ok(Deno.statSync(`${path}-wal`).size > size);
});

eachStore.test("read() and list() skip keys of other programs, but have ids whose values are no plants", async ({ store, kv }) => {
  await store.commit(newPlants([1n, 5n]));
  for (
    const key of [
      ...[["plants", 1n, "note"], ["plants", 3n, "note"], ["plants", 3]],
      ...[["plants", "3"], ["plants", true], ["plants"], ["zzz", 4n]],
      ...[["plant", 2n], ["plants", 5n, 1n], ["plants", 5n, 2n]],
    ]
  ) await kv.set(key, WHOLE);
  await kv.set(["plants", 7n], "not a plant");
  const plants = [...newPlants([1n, 5n]), { id: 7n, plant: null }];
  // A run of ids, and some apart.
  for (const ids of [range(1n, 7), [1n, 3n, 5n, 7n, 100n]]) {
    const found = new Map(plants.map(({ id, plant }) => [id, plant]));
    assert.deepEqual(await store.read(ids), found);
  }
  assert.deepEqual(await list(store), plants);
  assert.deepEqual(await list(store, undefined, true), plants.toReversed());
});

eachStore.test("list() has a plant whose id many keys of another program share, in both directions", async ({ store, kv }) => {
  const plants = newPlants([1n, 2n, 3n]);
  await store.commit(plants);
  const notes = kv.atomic();
  for (const i of range(0n, 2 * PAGE_KEYS)) notes.set(["plants", 2n, i], i);
  await notes.commit();
  assert.deepEqual(await list(store), plants);
  assert.deepEqual(await list(store, undefined, true), plants.toReversed());
});

eachStore.test("remove() deletes the plant of an id, and nothing else", async ({ store, kv }) => {
  await store.commit(newPlants([1n, 2n, 3n]));
  await kv.set(["plants", 4n], "not a plant");
  await kv.set(["plants", 2n, "note"], WHOLE);
  const entries = await entriesOf(kv);
  const isFound = [];
  for (const id of [2n, 2n, 4n, 5n]) isFound.push(await store.remove(id));
  assert.deepEqual(isFound, [true, false, true, false]);
  const kept = entries.filter(({ 0: key }) =>
    key.length === 3 || key[1] === 1n || key[1] === 3n
  );
  assert.deepEqual(await entriesOf(kv), kept);
  assert.equal(await store.commit(newPlants([2n])), "committed");
});

eachStore.test("remove() at the same time by several callers counts each plant once", async ({ store, kv }) => {
  const ids = range(1n, 10);
  await store.commit(newPlants(ids));
  const removals = await Promise.allSettled(
    [...ids, ...ids, ...ids].map((id) => store.remove(id)),
  );
  const removed = removals.filter((it) => "value" in it && it.value);
  assert.equal(removed.length, ids.length);
  assert.deepEqual(await entriesOf(kv), []);
});

eachStore.test("remove() of a plant that another program has removed or replaced meanwhile reads again in a file, and fails on a server", async ({ store, kv }) => {
  const key = ["plants", 1n];
  const { prototype } = Deno.AtomicOperation;
  const { commit } = prototype;
  const isFile = store.databaseBytes !== undefined;
  for (const isStored of [false, true]) {
    await store.commit(newPlants([1n]));
    using once = replaced(prototype, "commit", async function (
      this: Deno.AtomicOperation,
    ) {
      once[Symbol.dispose]();
      await kv.delete(key);
      if (isStored) await kv.set(key, WHOLE);
      const result = await commit.call(this);
      assert.deepEqual((await kv.get(key)).value, isStored ? WHOLE : null);
      return result;
    });
    if (isFile) {
      assert.equal(await store.remove(1n), isStored);
      assert.deepEqual(await entriesOf(kv), []);
    } else {
      const changed = storeError("other", "another client has changed it");
      await assert.rejects(store.remove(1n), changed);
      const kept = isStored ? [[key, WHOLE]] : [];
      assert.deepEqual(await entriesOf(kv), kept);
      await kv.delete(key);
    }
  }
});
