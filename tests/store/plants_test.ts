import assert from "node:assert/strict";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import type { KvStore } from "../../src/store/kv_store.ts";
import type { StoreLocation } from "../../src/store/open.ts";
import {
  changePlant,
  listPlants,
  PAGE_KEYS,
  type PlantEntry,
} from "../../src/store/plants.ts";
import { isMissing } from "../support/needs.ts";
import { entriesOf, newPlants, range, WHOLE } from "../support/plants.ts";
import {
  commitAll,
  isStoreError,
  openWith,
  STORES,
  TestStore,
} from "../support/stores.ts";
import { inParallel } from "../support/waiting.ts";

/** Ids at which a number that is not exact, or not signed, would differ. */
const IDS = [
  ID_MIN,
  ID_MIN + 1n,
  -(2n ** 53n) - 1n,
  -(2n ** 53n),
  -(2n ** 32n),
  -256n,
  -255n,
  -1n,
  0n,
  1n,
  255n,
  256n,
  2n ** 32n,
  2n ** 53n,
  2n ** 53n + 1n,
  ID_MAX - 1n,
  ID_MAX,
];

/** A plant that replaces another one. */
const OTHER = { name: "Ficus", tag: "tree" };

/** Lists the plants above an id, by default all, in the order of a listing. */
async function list(
  store: KvStore,
  after?: bigint,
  reverse = false,
): Promise<PlantEntry[]> {
  return (await Array.fromAsync(listPlants(store, after, reverse))).flat();
}

/** Stores the plants 1 to 3, and two values that are no plants. Returns all entries. */
async function fillStore(store: KvStore, kv: Deno.Kv) {
  await store.commit(newPlants([1n, 2n, 3n]));
  await kv.set(["plants", 4n], "not a plant");
  await kv.set(["plants", 2n, "note"], WHOLE);
  return await entriesOf(kv);
}

for (const { where, tools, open } of STORES) {
  Deno.test({
    name:
      `every id of int64 is exact, and listed in order and in reverse, all or those above an id, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      const plants = newPlants(IDS);
      await commitAll(store, plants);
      const found = await store.read(IDS);
      for (const { id, plant } of plants) {
        assert.deepEqual(found.get(id), plant);
      }
      for (const after of [undefined, ...IDS, 2n]) {
        const above = plants.filter(({ id }) =>
          after === undefined || id > after
        );
        assert.deepEqual(await list(store, after), above);
        assert.deepEqual(await list(store, after, true), above.toReversed());
      }
    },
  });

  Deno.test({
    name:
      `listPlants() has pages of PAGE_KEYS plants until one is shorter, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      for (const end of [PAGE_KEYS, 2 * PAGE_KEYS + 1]) {
        const plants = newPlants(range(1n, end));
        await commitAll(store, plants.slice((await list(store)).length));
        for (const reverse of [false, true]) {
          const pages = await Array.fromAsync(
            listPlants(store, undefined, reverse),
          );
          const expected = reverse ? plants.toReversed() : plants;
          assert.deepEqual(pages.flat(), expected);
          const lengths = pages.map(({ length }) => length);
          const full = Array(Math.floor(end / PAGE_KEYS)).fill(PAGE_KEYS);
          assert.deepEqual(lengths, [...full, end % PAGE_KEYS]);
        }
      }
    },
  });

  Deno.test({
    name:
      `read() and listPlants() skip keys of other programs, but have ids whose values are no plants, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      await store.commit(newPlants([1n, 5n]));
      for (
        const key of [
          ["plants", 1n, "note"],
          ["plants", 3n, "note"],
          ["plants", 5n, 1n],
          ["plants", 5n, 2n],
          ["plants", 3],
          ["plants", "3"],
          ["plants", true],
          ["plants"],
          ["plant", 2n],
          ["zzz", 4n],
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
    },
  });

  Deno.test({
    name:
      `listPlants() skips many keys of another program between two plants, in both directions, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      const plants = newPlants([1n, 2n, 3n]);
      await store.commit(plants);
      const notes = kv.atomic();
      for (const i of range(0n, 2 * PAGE_KEYS)) notes.set(["plants", 2n, i], i);
      await notes.commit();
      assert.deepEqual(await list(store), plants);
      assert.deepEqual(await list(store, undefined, true), plants.toReversed());
    },
  });

  Deno.test({
    name:
      `changePlant() removes the plant of an id, and nothing else, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      const entries = await fillStore(store, kv);
      const changes = [];
      for (const id of [2n, 2n, 4n, 5n]) {
        changes.push(await changePlant(store, id, undefined));
      }
      assert.deepEqual(changes, ["changed", "absent", "changed", "absent"]);
      const kept = entries.filter(({ 0: key }) =>
        key.length === 3 || key[1] === 1n || key[1] === 3n
      );
      assert.deepEqual(await entriesOf(kv), kept);
      assert.equal(await store.commit(newPlants([2n])), "committed");
    },
  });

  Deno.test({
    name:
      `changePlant() replaces the plant of an id, and nothing else, and creates none, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      const entries = await fillStore(store, kv);
      const changes = [];
      for (const id of [2n, 2n, 4n, 5n]) {
        changes.push(await changePlant(store, id, OTHER));
      }
      // The same name without a tag is another plant.
      const { name } = OTHER;
      changes.push(await changePlant(store, 2n, { name }));
      assert.deepEqual(
        changes,
        ["changed", "unchanged", "changed", "absent", "changed"],
      );
      const expected = entries.map(([key, value]) => {
        if (key.length === 3) return [key, value];
        if (key[1] === 2n) return [key, { name }];
        return [key, key[1] === 4n ? OTHER : value];
      });
      assert.deepEqual(await entriesOf(kv), expected);
    },
  });

  Deno.test({
    name:
      `changePlant() by several callers at the same time removes each plant once, ${where}`,
    ignore: isMissing(...tools),
    async fn() {
      await using opened = await open();
      const { store } = opened;
      using kv = await opened.openKv();
      const ids = range(1n, 10);
      await store.commit(newPlants(ids));
      let removed = 0;
      const isTooLate = isStoreError(
        "changed",
        "another client has changed it",
      );
      await inParallel([...ids, ...ids, ...ids], async (id) => {
        try {
          const change = await changePlant(store, id, undefined);
          if (change === "changed") removed++;
        } catch (error) {
          // Only a server tells the second of two callers this.
          assert.equal(where, "on a KV Connect server");
          isTooLate(error);
        }
      });
      assert.equal(removed, ids.length);
      assert.deepEqual(await entriesOf(kv), []);
    },
  });
}

/** Opens a store in which something happens after each read of one key. */
function openInterrupted(
  location: StoreLocation,
  interrupt: () => Promise<void>,
): Promise<KvStore & Disposable> {
  return openWith(location, (kv) => ({
    async get(key) {
      const entry = await kv.get(key);
      await interrupt();
      return entry;
    },
  }));
}

const KEY = ["plants", 1n];

/** What another program does to the plant 1 while it is removed or replaced. */
const CHANGES = [
  ["removed", (kv: Deno.Kv) => kv.delete(KEY)],
  ["replaced", (kv: Deno.Kv) => kv.set(KEY, WHOLE)],
] as const;

const REMOVE = (store: KvStore) => changePlant(store, 1n, undefined);
const REPLACE = (store: KvStore) => changePlant(store, 1n, OTHER);

for (
  const [name, change, results] of [
    ["a removal", REMOVE, { removed: ["absent"], replaced: ["changed"] }],
    [
      "a replacement",
      REPLACE,
      { removed: ["absent"], replaced: ["changed", OTHER] },
    ],
  ] as const
) {
  for (const [what, interrupt] of CHANGES) {
    Deno.test(`${name} reads again in a file if another program has ${what} the plant meanwhile`, async () => {
      await using opened = await TestStore.inFile();
      using kv = await opened.openKv();
      await opened.store.commit(newPlants([1n]));
      let isChanged = false;
      using other = await openInterrupted(opened.location, async () => {
        if (!isChanged) await interrupt(kv);
        isChanged = true;
      });
      const [result, ...values] = results[what];
      assert.equal(await change(other), result);
      assert.deepEqual(await entriesOf(kv), values.map((it) => [KEY, it]));
    });

    Deno.test({
      name:
        `${name} fails on a KV Connect server if another client has ${what} the plant meanwhile`,
      ignore: isMissing("DENOKV"),
      async fn() {
        await using opened = await TestStore.onServer();
        using kv = await opened.openKv();
        await opened.store.commit(newPlants([1n]));
        using other = await openInterrupted(opened.location, async () => {
          await interrupt(kv);
        });
        await assert.rejects(change(other), isStoreError("changed"));
        const kept = what === "replaced" ? [[KEY, WHOLE]] : [];
        assert.deepEqual(await entriesOf(kv), kept);
      },
    });
  }
}

Deno.test("changePlant() fails if the store does not answer in time", async () => {
  await using opened = await TestStore.inFile();
  const silence = () => new Promise<never>(() => {});
  using store = await openInterrupted(opened.location, silence);
  const expected = isStoreError("no answer", "no answer within 0.3 s");
  for (const plant of [undefined, OTHER]) {
    const changing = changePlant(store, 1n, plant, { timeoutMs: 300 });
    await assert.rejects(changing, expected);
  }
});
