import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { LIST_CHARS, LIST_KEYS_MAX, LIST_KEYS_MIN } from "../../src/limits.ts";
import { openStore } from "../../src/store/kv_store.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  commit,
  commitAll,
  largestPlant,
  newPlants,
  testStores,
} from "../support/stores.ts";

const PLANT = { name: "Monstera", tag: "climber" };

for (
  const count of [0, 1, LIST_KEYS_MIN, LIST_KEYS_MIN + LIST_KEYS_MAX, 2_300]
) {
  testStores(
    `pages() lists ${count} plants in the order of ids`,
    async ({ store }) => {
      const ids = Array.from({ length: count }, (_, i) => BigInt(i - 700) * 3n);
      await commitAll(store, newPlants(ids));
      const pages = await Array.fromAsync(store.pages());
      assert.deepEqual(pages.flat(), newPlants(ids));
      for (const { length } of pages) assert.ok(length <= LIST_KEYS_MAX);
    },
  );
}

testStores("pages() lists large plants in small pages", async ({ store }) => {
  const plant = largestPlant();
  const plants = Array.from(
    { length: 3 * LIST_KEYS_MIN },
    (_, i) => ({ id: BigInt(i), plant }),
  );
  await commitAll(store, plants, 10);
  const pages = await Array.fromAsync(store.pages());
  assert.deepEqual(pages.flat(), plants);
  const plantsMax = Math.ceil(LIST_CHARS / plant.name.length);
  for (const { length } of pages) {
    assert.ok(length <= Math.max(LIST_KEYS_MIN, plantsMax));
  }
});

testStores(
  "pages() names the keys of values that are not plants",
  async ({ store, kv }) => {
    await commit(store, [{ id: 2n, plant: PLANT }]);
    await kv.set(["plants", 1n], "not a plant");
    await kv.set(["plants", 3n, "x"], PLANT);
    await kv.set(["plants", "text"], PLANT);
    await kv.set(["plant", 4n], PLANT);
    await kv.set(["plants"], PLANT);
    const listed = (await Array.fromAsync(store.pages())).flat();
    assert.deepEqual(listed, [
      '[ "plants", "text" ]',
      '[ "plants", 1n ]',
      { id: 2n, plant: PLANT },
      '[ "plants", 3n, "x" ]',
    ]);
  },
);

testStores("pages() can be stopped early", async ({ store }) => {
  const ids = Array.from({ length: 1_200 }, (_, i) => BigInt(i));
  await commitAll(store, newPlants(ids));
  for await (const page of store.pages()) {
    assert.deepEqual(page, newPlants(ids.slice(0, page.length)));
    break;
  }
  // The store still works. This takes longer than the prefetched page.
  const listed = await Array.fromAsync(store.pages());
  assert.equal(listed.flat().length, ids.length);
});

Deno.test("pages() that is stopped early ignores the failure of the next page", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const store = await openStore({ kind: "file", path });
  const ids = Array.from({ length: 200 }, (_, i) => BigInt(i));
  await commitAll(store, newPlants(ids));
  const rejected: unknown[] = [];
  const listener = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    rejected.push(event.reason);
  };
  addEventListener("unhandledrejection", listener);
  for await (const _page of store.pages()) {
    // The next page is being read.
    store.close();
    break;
  }
  await sleep(50);
  removeEventListener("unhandledrejection", listener);
  assert.deepEqual(rejected, []);
});
