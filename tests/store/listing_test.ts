import assert from "node:assert/strict";
import { PAGE_KEYS } from "../../src/limits.ts";
import {
  type Listed,
  type ListedStore,
  listPlants,
  type PageStart,
  requireReadable,
} from "../../src/store/listing.ts";
import { StoreError } from "../../src/store_error.ts";
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

Deno.test("listPlants() lists every plant, in pages of PAGE_KEYS until one is shorter", async () => {
  for (const count of [0, 1, PAGE_KEYS - 1, PAGE_KEYS, 3 * PAGE_KEYS + 1]) {
    const plants = newPlants(range(-70n, count));
    const pages = await Array.fromAsync(listPlants(new ArrayStore(plants)));
    assert.deepEqual(pages.flat(), plants);
    assert.equal(pages.length, Math.floor(count / PAGE_KEYS) + 1);
  }
});

Deno.test("listPlants() lists plants above an id", async () => {
  const store = new ArrayStore(newPlants(range(8n, PAGE_KEYS)));
  await Array.fromAsync(listPlants(store, 7n));
  assert.deepEqual(store.calls, [
    { keysMax: PAGE_KEYS, after: 7n, cursor: "" },
    { keysMax: PAGE_KEYS, after: 7n, cursor: `${PAGE_KEYS}` },
  ]);
});

Deno.test("listPlants() prefetches one page", async () => {
  const store = new ArrayStore(newPlants(range(1n, 4 * PAGE_KEYS)));
  const pages = listPlants(store);
  for (let page = 1; page <= 2; page++) {
    await pages.next();
    await settled();
    assert.equal(store.calls.length, page + 1);
  }
  await pages.return(undefined);
});

Deno.test("listPlants() has the plants of every page before one that fails", async () => {
  const plants = newPlants(range(1n, 2 * PAGE_KEYS + 1));
  const store = new ArrayStore(plants);
  store.failing = { index: 2, error: new StoreError("locked") };
  const found: Listed[] = [];
  await assert.rejects(async () => {
    for await (const page of listPlants(store)) found.push(...page);
  }, storeError("locked"));
  assert.deepEqual(found, plants.slice(0, 2 * PAGE_KEYS));
});

Deno.test("listPlants() that is stopped early ignores the failure of the prefetched page", async () => {
  const store = new ArrayStore(newPlants(range(1n, 2 * PAGE_KEYS)));
  store.failing = { index: 1, error: new StoreError("locked") };
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
  [newPlants([...range(1n, PAGE_KEYS), ...range(1n, PAGE_KEYS)])],
];

Deno.test("listPlants() and requireReadable() take ids that do not ascend for a corrupt database", async () => {
  for (const [entries, after] of CIRCLES) {
    const store = new ArrayStore(entries);
    const listed = Array.fromAsync(listPlants(store, after));
    await assert.rejects(listed, storeError("corrupt"));
    // It reads the first page only.
    if (after !== undefined || entries.length > PAGE_KEYS) continue;
    await assert.rejects(requireReadable(store), storeError("corrupt"));
  }
});

Deno.test("requireReadable() reads one page, and accepts those of other programs", async () => {
  const entries: Listed[] = ['[ "plants", "text" ]', ...newPlants([-1n, 2n])];
  const store = new ArrayStore(entries);
  await requireReadable(store);
  assert.deepEqual(store.calls, [{ keysMax: PAGE_KEYS, cursor: "" }]);
  store.failing = { index: 1, error: new StoreError("newer format") };
  await assert.rejects(requireReadable(store), storeError("newer format"));
});
