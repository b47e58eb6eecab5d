import assert from "node:assert/strict";
import {
  BODY_BYTES_MAX,
  COMMIT_CHARS_MAX,
  ID_MAX,
  ID_MIN,
  LIST_KEYS_MAX,
  STORE_OPEN_MS_MAX,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { countChars } from "../../src/plant/plant.ts";
import { listPlants } from "../../src/store/listing.ts";
import { retryWhileLocked } from "../../src/store/retry.ts";
import { Random } from "../support/random.ts";
import { replaced } from "../support/replaced.ts";
import { newPlants, range, WHOLE } from "../support/plants.ts";
import { entriesOf } from "../support/entries.ts";
import {
  commit,
  commitAll,
  eachStore,
  fileStore,
  storeError,
} from "../support/stores.ts";
import { drawId } from "../support/transfer.ts";

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

eachStore.test("commit() writes plants that another program can read, without a problem of the files", async ({ store, kv }) => {
  const plants: NewPlant[] = [
    { id: 1n, plant: WHOLE },
    { id: -2n, plant: { name: "" } },
    { id: 3n, plant: { name: "Олива\0🌿\n", tag: "" } },
  ];
  assert.equal(await commit(store, plants), "committed");
  assert.deepEqual(await entriesOf(kv), [
    [["plants", -2n], { name: "" }],
    [["plants", 1n], WHOLE],
    [["plants", 3n], { name: "Олива\0🌿\n", tag: "" }],
  ]);
  assert.equal(store.checkFiles(), undefined);
});

eachStore.test("commit() writes nothing if one id exists", async ({ store, kv }) => {
  await commit(store, [{ id: 5n, plant: WHOLE }]);
  await kv.set(["plants", 6n], "not a plant");
  const entries = await entriesOf(kv);
  for (const id of [5n, 6n]) {
    const batch = newPlants([1n, 2n, 8n, 9n]).toSpliced(2, 0, {
      id,
      plant: WHOLE,
    });
    assert.equal(await commit(store, batch), "exists");
    assert.deepEqual(await entriesOf(kv), entries);
  }
});

eachStore.test("every id of int64 is exact, and listed in order, all or those above an id", async ({ store }) => {
  const plants = newPlants(IDS);
  await commitAll(store, plants);
  const found = await store.read(IDS);
  for (const { id, plant } of plants) assert.deepEqual(found.get(id), plant);
  for (const after of [undefined, ...IDS, 2n]) {
    const listed = (await Array.fromAsync(listPlants(store, after))).flat();
    const above = plants.filter(({ id }) => after === undefined || id > after);
    assert.deepEqual(listed, above);
  }
});

eachStore.test("commit() takes the most plants that COMMIT_CHARS_MAX allows, the largest and as many as possible", async ({ store, kv }) => {
  const chars = Math.floor(COMMIT_CHARS_MAX / store.commitPlantsMax);
  const many = { name: "ж".repeat(Math.min(chars, LARGEST.name.length)) };
  const ids: bigint[] = [];
  const counts: number[] = [];
  for (const plant of [LARGEST, many]) {
    const count = Math.min(
      store.commitPlantsMax,
      Math.floor(COMMIT_CHARS_MAX / countChars(plant)),
    );
    counts.push(count);
    const next = ID_MIN + BigInt(ids.length);
    const plants = range(next, count).map((id) => ({ id, plant }));
    ids.push(...plants.map(({ id }) => id));
    assert.equal(await commit(store, plants), "committed");
    assert.equal(await commit(store, plants), "exists");
    const found = await store.read(ids);
    for (const { id } of plants) assert.deepEqual(found.get(id), plant);
  }
  assert.ok(counts[0] !== undefined && counts[0] > 0);
  assert.equal(counts[1], store.commitPlantsMax);
  assert.equal((await entriesOf(kv)).length, ids.length);
});

eachStore.test("read() returns the plants that exist, and null for values that are not plants", async ({ store, kv }) => {
  await commit(store, [{ id: 1n, plant: WHOLE }]);
  await kv.set(["plants", 2n], { name: "Ficus", height: 3, tag: "" });
  // A run of ids, and one apart.
  const foreign = [3n, 4n, 5n, 1_000n];
  for (const id of foreign) await kv.set(["plants", id], { name: 7 });
  assert.deepEqual(
    await store.read([1n, 2n, ...foreign]),
    new Map<bigint, Plant | null>([
      [1n, WHOLE],
      [2n, { name: "Ficus", tag: "" }],
      ...foreign.map((id) => [id, null] as const),
    ]),
  );
});

eachStore.test("read() finds ids in sequences, with gaps, at both ends and far apart", async ({ store, kv }) => {
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

eachStore.test("read() finds a sequence of more ids than one listing returns", async ({ store }) => {
  const count = LIST_KEYS_MAX + 300;
  const ids = range(-400n, count);
  await commitAll(store, newPlants(ids.filter((id) => id % 3n !== 0n)));
  const found = await store.read(ids);
  for (const { id, plant } of newPlants(ids)) {
    assert.deepEqual(found.get(id), id % 3n === 0n ? undefined : plant);
  }
});

eachStore.test("probe() leaves nothing behind", async ({ store, kv }) => {
  // The other connection may have the lock for a moment.
  await retryWhileLocked(STORE_OPEN_MS_MAX, () => store.probe());
  assert.deepEqual(await entriesOf(kv), []);
});

fileStore.test("probe() writes, also if another program has stored a probe key", async ({ store, path }) => {
  using kv = await Deno.openKv(path);
  await kv.set(["probe"], "of another program");
  const { size } = Deno.statSync(`${path}-wal`);
  await retryWhileLocked(STORE_OPEN_MS_MAX, () => store.probe());
  assert.ok(Deno.statSync(`${path}-wal`).size > size);
});

eachStore.test("read() and listPlants() ignore keys of another program, but those longer than an id are listed without a plant", async ({ store, kv }) => {
  await commit(store, [{ id: 1n, plant: WHOLE }, { id: 5n, plant: WHOLE }]);
  for (
    const key of [
      ...[["plants", 1n, "note"], ["plants", 3n, "note"], ["plants", 3]],
      ...[["plants", "3"], ["plants", true], ["plants"], ["zzz", 4n]],
      ["plant", 2n],
    ]
  ) await kv.set(key, WHOLE);
  const found = await store.read([1n, 2n, 3n, 4n, 5n]);
  assert.deepEqual(found, new Map([[1n, WHOLE], [5n, WHOLE]]));
  assert.deepEqual(await store.read([3n]), new Map());
  assert.deepEqual((await Array.fromAsync(listPlants(store))).flat(), [
    { id: 1n, plant: WHOLE },
    { id: 1n, plant: null },
    { id: 3n, plant: null },
    { id: 5n, plant: WHOLE },
  ]);
});

eachStore.test("remove() deletes the plant of an id, and nothing else", async ({ store, kv }) => {
  await commit(store, newPlants([1n, 2n, 3n]));
  await kv.set(["plants", 4n], "not a plant");
  await kv.set(["plants", 2n, "note"], WHOLE);
  const entries = await entriesOf(kv);
  const isFound = [];
  for (const id of [2n, 2n, 4n, 5n]) {
    const remove = () => store.remove(id);
    isFound.push(await retryWhileLocked(STORE_OPEN_MS_MAX, remove));
  }
  assert.deepEqual(isFound, [true, false, true, false]);
  const kept = entries.filter(({ 0: key }) =>
    key.length === 3 || key[1] === 1n || key[1] === 3n
  );
  assert.deepEqual(await entriesOf(kv), kept);
  assert.equal(await commit(store, [{ id: 2n, plant: WHOLE }]), "committed");
});

eachStore.test("remove() is locked if another program changes the plant meanwhile, and removes nothing", async ({ store, kv }) => {
  const key = ["plants", 1n];
  const { prototype } = Deno.AtomicOperation;
  const { commit: commitNow } = prototype;
  for (const plants of [[], [{ name: "Ficus" }]]) {
    await kv.delete(key);
    await commit(store, newPlants([1n]));
    using once = replaced(prototype, "commit", async function (
      this: Deno.AtomicOperation,
    ) {
      once[Symbol.dispose]();
      await kv.delete(key);
      for (const plant of plants) await kv.set(key, plant);
      return await commitNow.call(this);
    });
    await assert.rejects(store.remove(1n), storeError("locked"));
    assert.deepEqual(await entriesOf(kv), plants.map((plant) => [key, plant]));
    assert.equal(await store.remove(1n), plants.length === 1);
  }
});
