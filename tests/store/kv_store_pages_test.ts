import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { PAGE_KEYS } from "../../src/limits.ts";
import { openStore } from "../../src/store/open.ts";
import { newPlants, range } from "../support/load.ts";
import { commit, commitAll, eachStore } from "../support/stores.ts";
import { test } from "../support/tests.ts";

const PLANT = { name: "Monstera", tag: "climber" };

for (const count of [0, 1, PAGE_KEYS, PAGE_KEYS + 1, 5 * PAGE_KEYS - 1]) {
  eachStore.test(`pages() lists ${count} plants in the order of ids`, async ({ store }) => {
    const ids = range(-70n, count).map((id) => 3n * id);
    await commitAll(store, newPlants(ids));
    const pages = await Array.fromAsync(store.pages());
    assert.deepEqual(pages.flat(), newPlants(ids));
    for (const { length } of pages) assert.ok(length <= PAGE_KEYS);
  });
}

eachStore.test("pages() names the keys of values that are not plants", async ({ store, kv }) => {
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
});

eachStore.test("pages() can be stopped early", async ({ store }) => {
  const ids = range(0n, 3 * PAGE_KEYS);
  await commitAll(store, newPlants(ids));
  for await (const page of store.pages()) {
    assert.deepEqual(page, newPlants(ids.slice(0, page.length)));
    break;
  }
  // The store still works.
  const listed = await Array.fromAsync(store.pages());
  assert.equal(listed.flat().length, ids.length);
});

test("pages() that is stopped early ignores the failure of the next page", async ({ store: path }) => {
  const store = await openStore({ kind: "file", path });
  const ids = range(0n, 3 * PAGE_KEYS);
  await commitAll(store, newPlants(ids));
  const rejected: unknown[] = [];
  const listener = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    rejected.push(event.reason);
  };
  addEventListener("unhandledrejection", listener);
  const pages = store.pages();
  await pages.next();
  // The second page is read by then, and the third cannot be.
  await sleep(50);
  store.close();
  await pages.next();
  await pages.return(undefined);
  await sleep(50);
  removeEventListener("unhandledrejection", listener);
  assert.deepEqual(rejected, []);
});
