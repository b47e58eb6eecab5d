import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { PAGE_CHARS, PAGE_KEYS_MAX, PAGE_KEYS_MIN } from "../../src/limits.ts";
import { openStore } from "../../src/store/open.ts";
import { newPlants, PLANT, range } from "../support/load.ts";
import { commit, commitAll, eachStore } from "../support/stores.ts";
import { test } from "../support/tests.ts";

/** Plants of the first page and of a full second one. */
const TWO_PAGES = PAGE_KEYS_MIN + PAGE_KEYS_MAX;

const LENGTHS: readonly (readonly [count: number, lengths: number[]])[] = [
  [0, [0]],
  [1, [1]],
  [PAGE_KEYS_MIN, [PAGE_KEYS_MIN, 0]],
  [PAGE_KEYS_MIN + 1, [PAGE_KEYS_MIN, 1]],
  [TWO_PAGES - 1, [PAGE_KEYS_MIN, PAGE_KEYS_MAX - 1]],
  [TWO_PAGES, [PAGE_KEYS_MIN, PAGE_KEYS_MAX, 0]],
  [
    TWO_PAGES + PAGE_KEYS_MAX,
    [PAGE_KEYS_MIN, PAGE_KEYS_MAX, PAGE_KEYS_MAX, 0],
  ],
];

for (const [count, lengths] of LENGTHS) {
  eachStore.test(`pages() lists ${count} small plants in the order of ids, in pages of ${lengths.join(", ")}`, async ({ store }) => {
    const ids = range(-70n, count).map((id) => 3n * id);
    await commitAll(store, newPlants(ids));
    const pages = await Array.fromAsync(store.pages());
    assert.deepEqual(pages.flat(), newPlants(ids));
    assert.deepEqual(pages.map(({ length }) => length), lengths);
  });
}

eachStore.test("pages() lists fewer plants in a page if those of the page before are large", async ({ store }) => {
  const few = 64;
  const lengths = [PAGE_KEYS_MIN, PAGE_KEYS_MAX, few, few, PAGE_KEYS_MAX, 1];
  const large = { name: "x".repeat(PAGE_CHARS / few) };
  const sizes = lengths.map((_, i) => i === 1 || i === 2 ? large : PLANT);
  const plants = lengths.flatMap((length, page) =>
    range(BigInt(1_000 * page), length).map((id) => ({
      id,
      plant: sizes[page] ?? PLANT,
    }))
  );
  await commitAll(store, plants);
  const pages = await Array.fromAsync(store.pages());
  assert.deepEqual(pages.flat(), plants);
  assert.deepEqual(pages.map(({ length }) => length), lengths);
});

eachStore.test("pages() names the keys of values that are not plants", async ({ store, kv }) => {
  await commit(store, [{ id: 2n, plant: PLANT }]);
  await kv.set(["plants", 1n], "not a plant");
  // The first page ends between these.
  for (const part of ["x", "y", "z"]) {
    await kv.set(["plants", 3n, part], PLANT);
  }
  await kv.set(["plants", "text"], PLANT);
  await kv.set(["plant", 4n], PLANT);
  await kv.set(["plants"], PLANT);
  const listed = (await Array.fromAsync(store.pages())).flat();
  assert.deepEqual(listed, [
    '[ "plants", "text" ]',
    '[ "plants", 1n ]',
    { id: 2n, plant: PLANT },
    ...["x", "y", "z"].map((part) => `[ "plants", 3n, "${part}" ]`),
  ]);
});

test("pages() that is stopped early ignores the failure of the next page", async ({ store: path }) => {
  const store = await openStore({ kind: "file", path });
  const ids = range(0n, TWO_PAGES + 1);
  await commitAll(store, newPlants(ids));
  const rejected: unknown[] = [];
  const listener = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    rejected.push(event.reason);
  };
  addEventListener("unhandledrejection", listener);
  const pages = store.pages();
  await pages.next();
  // SQLite has one thread: the second page is read by then, and the third
  // cannot be.
  await store.read([0n]);
  store.close();
  await pages.next();
  await pages.return(undefined);
  await assert.rejects(Array.fromAsync(store.pages()));
  await sleep(0);
  removeEventListener("unhandledrejection", listener);
  assert.deepEqual(rejected, []);
});
