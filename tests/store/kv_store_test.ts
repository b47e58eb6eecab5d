import assert from "node:assert/strict";
import { BODY_BYTES_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { countChars } from "../../src/plant/plant.ts";
import { COMMIT_CHARS_MAX } from "../../src/store/committer.ts";
import { LIST_KEYS_MAX } from "../../src/store/entries.ts";
import { isMissing } from "../support/needs.ts";
import { entriesOf, newPlants, range, WHOLE } from "../support/plants.ts";
import { Random } from "../support/random.ts";
import { commitAll, STORES, TestStore } from "../support/stores.ts";

/** Fills a body; one "ж" makes V8 store all characters with two bytes. */
const LARGEST: Plant = {
  name: "a".repeat(BODY_BYTES_MAX - 'xx{"id":1,"name":""}'.length) + "ж",
};

for (const { where, tools, open } of STORES) {
  Deno.test({
    name: `commit() writes plants that another program can read, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
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
      store.verifyFiles();
    },
  });

  Deno.test({
    name: `commit() writes nothing if one id exists, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
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
    },
  });

  Deno.test({
    name:
      `commit() accepts the most plants that COMMIT_CHARS_MAX allows, the largest and as many as possible, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
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
    },
  });

  Deno.test({
    name:
      `read() finds ids in sequences, longer than one listing, with gaps, at both ends and far apart, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      // Any ids that are far apart.
      const random = new Random(1);
      const randomIds = Array.from({ length: 100 }, () => random.int64());
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
    },
  });

  Deno.test({
    name: `probe() leaves nothing behind, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      await store.probe();
      assert.deepEqual(await entriesOf(kv), []);
    },
  });
}

Deno.test("probe() writes, also if another program has stored something of that name", async () => {
  await using opened = await TestStore.inFile();
  const { store, path } = opened;
  using kv = await Deno.openKv(path);
  await kv.set(["probe"], "of another program");
  const { size } = Deno.statSync(`${path}-wal`);
  await store.probe();
  assert.ok(Deno.statSync(`${path}-wal`).size > size);
});

Deno.test("databaseBytes is the size of the file", async () => {
  await using opened = await TestStore.inFile();
  const { store, path } = opened;
  assert.equal(await store.commit(newPlants([1n])), "committed");
  assert.equal(store.databaseBytes, Deno.statSync(path).size);
});
