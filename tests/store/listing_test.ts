import assert from "node:assert/strict";
import { PAGE_CHARS, PAGE_KEYS_MAX, PAGE_KEYS_MIN } from "../../src/limits.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import {
  type Listed,
  type ListedStore,
  listPlants,
  type PageStart,
  requireReadable,
} from "../../src/store/listing.ts";
import { settled } from "../support/fake_store.ts";
import { newPlants, range } from "../support/load.ts";
import { storeError } from "../support/stores.ts";

/** A store whose keys are listed in the order of the array. */
class ArrayStore implements ListedStore {
  readonly entries: readonly Listed[];
  /** The pages that were asked for. */
  readonly calls: (PageStart & { readonly keysMax: number })[] = [];
  /** The error of the page with this index, if it fails. */
  failing: { readonly index: number; readonly error: Error } | undefined;

  constructor(entries: readonly Listed[]) {
    this.entries = entries;
  }

  listPage(keysMax: number, start: PageStart) {
    const index = this.calls.push({ keysMax, ...start }) - 1;
    if (index === this.failing?.index) {
      return Promise.reject(this.failing.error);
    }
    const from = Number(start.cursor);
    const page = this.entries.slice(from, from + keysMax);
    return Promise.resolve({ page, cursor: `${from + page.length}` });
  }
}

/** Plants of the first page and of a full second one. */
const TWO_PAGES = PAGE_KEYS_MIN + PAGE_KEYS_MAX;

/** A number of plants, and the lengths of the pages that list them. */
const LENGTHS: readonly (readonly [count: number, lengths: number[]])[] = [
  [0, [0]],
  [PAGE_KEYS_MIN, [PAGE_KEYS_MIN, 0]],
  [PAGE_KEYS_MIN + 1, [PAGE_KEYS_MIN, 1]],
  [TWO_PAGES, [PAGE_KEYS_MIN, PAGE_KEYS_MAX, 0]],
  [
    TWO_PAGES + PAGE_KEYS_MAX,
    [PAGE_KEYS_MIN, PAGE_KEYS_MAX, PAGE_KEYS_MAX, 0],
  ],
];

Deno.test("listPlants() lists small plants in pages of PAGE_KEYS_MAX after the first", async () => {
  for (const [count, lengths] of LENGTHS) {
    for (const name of ["", "Monstera"]) {
      const plants = range(-70n, count).map((id) => ({ id, plant: { name } }));
      const pages = await Array.fromAsync(listPlants(new ArrayStore(plants)));
      assert.deepEqual(pages.flat(), plants);
      assert.deepEqual(pages.map(({ length }) => length), lengths);
    }
  }
});

Deno.test("listPlants() lists fewer entries in a page if those of the page before are large", async () => {
  const few = 64;
  const lengths = [PAGE_KEYS_MIN, PAGE_KEYS_MAX, few, few, PAGE_KEYS_MAX, 1];
  const large = "x".repeat(PAGE_CHARS / few);
  for (const isPlant of [true, false]) {
    const entries = lengths.flatMap((length, page) => {
      const text = page === 1 || page === 2 ? large : "Monstera";
      return range(BigInt(1_000 * page), length)
        .map((id) => isPlant ? { id, plant: { name: text } } : text);
    });
    const pages = await Array.fromAsync(listPlants(new ArrayStore(entries)));
    assert.deepEqual(pages.map(({ length }) => length), lengths);
  }
});

Deno.test("listPlants() lists plants above an id", async () => {
  const store = new ArrayStore(newPlants(range(8n, PAGE_KEYS_MIN)));
  await Array.fromAsync(listPlants(store, 7n));
  assert.deepEqual(store.calls, [
    { keysMax: PAGE_KEYS_MIN, after: 7n, cursor: "" },
    { keysMax: PAGE_KEYS_MAX, after: 7n, cursor: `${PAGE_KEYS_MIN}` },
  ]);
});

Deno.test("listPlants() prefetches one page", async () => {
  const store = new ArrayStore(newPlants(range(1n, 2 * TWO_PAGES)));
  const pages = listPlants(store);
  for (let page = 1; page <= 2; page++) {
    await pages.next();
    await settled();
    assert.equal(store.calls.length, page + 1);
  }
  await pages.return(undefined);
});

Deno.test("listPlants() has the plants of every page before one that fails", async () => {
  const plants = newPlants(range(1n, TWO_PAGES + 1));
  const store = new ArrayStore(plants);
  store.failing = { index: 2, error: new DatabaseError("locked") };
  const found: Listed[] = [];
  await assert.rejects(async () => {
    for await (const page of listPlants(store)) found.push(...page);
  }, storeError("locked"));
  assert.deepEqual(found, plants.slice(0, TWO_PAGES));
});

Deno.test("listPlants() that is stopped early ignores the failure of the prefetched page", async () => {
  const store = new ArrayStore(newPlants(range(1n, TWO_PAGES)));
  store.failing = { index: 1, error: new DatabaseError("locked") };
  // The test fails if a rejection is not handled.
  for await (const _page of listPlants(store)) break;
  assert.equal(store.calls.length, 2);
  await settled();
});

/** Entries whose ids do not ascend, and the id that a listing starts after. */
const CIRCLES: readonly (readonly [readonly Listed[], after?: bigint])[] = [
  [newPlants([1n, 1n])],
  [newPlants([2n, 1n])],
  [[...newPlants([2n]), '[ "plants", "x" ]', ...newPlants([2n])]],
  [newPlants([7n, 8n]), 7n],
  [newPlants([...range(1n, PAGE_KEYS_MIN), ...range(1n, PAGE_KEYS_MIN)])],
];

Deno.test("listPlants() and requireReadable() take ids that do not ascend for a corrupt database", async () => {
  for (const [entries, after] of CIRCLES) {
    const store = new ArrayStore(entries);
    const listed = Array.fromAsync(listPlants(store, after));
    await assert.rejects(listed, storeError("corrupt"));
    if (after !== undefined) continue;
    await assert.rejects(requireReadable(store), storeError("corrupt"));
  }
});

Deno.test("requireReadable() reads PAGE_KEYS_MAX keys, and accepts those of other programs", async () => {
  const entries: Listed[] = ['[ "plants", "text" ]', ...newPlants([-1n, 2n])];
  const store = new ArrayStore(entries);
  await requireReadable(store);
  assert.deepEqual(store.calls, [{ keysMax: PAGE_KEYS_MAX, cursor: "" }]);
  store.failing = { index: 1, error: new DatabaseError("newer format") };
  await assert.rejects(requireReadable(store), storeError("newer format"));
});
