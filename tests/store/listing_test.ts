import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { ID_MAX, ID_MIN, PAGE_KEYS } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import {
  type Gap,
  type Listed,
  type ListedStore,
  listPlants,
  requireReadable,
  salvagePlants,
} from "../../src/store/listing.ts";
import { StoreError, type StoreErrorKind } from "../../src/store_error.ts";
import { newPlants, range } from "../support/plants.ts";
import { settled } from "../support/fake_store.ts";
import { type Random, withSeed } from "../support/random.ts";
import { storeError } from "../support/stores.ts";
import { drawId } from "../support/transfer.ts";

/** One by one up to the damage, then in growing steps up and down, and halved ones. */
const READS_A_LEAF_MAX = PAGE_KEYS + 1_500;

/** A page of a database: the ids up to the first one of the next page. */
interface Leaf {
  readonly from: bigint;
  readonly plants: readonly NewPlant[];
  /** What a read of it finds: a damaged key can look like the end of all. */
  readonly damage?: StoreErrorKind | "end" | undefined;
}

/** A store as SQLite reads it: a listing searches the page of its first id. */
class LeafStore implements ListedStore {
  readonly leaves: readonly Leaf[];
  reads = 0;
  /** Called before each page, with its index. */
  onRead: (index: number) => void = () => {};

  constructor(leaves: readonly Leaf[]) {
    this.leaves = leaves;
  }

  // deno-lint-ignore require-await
  async listPage(after: bigint, idsMax: number, isReverse = false) {
    const read = this.reads++;
    if (read > 1_000_000) throw new Error("the listing does not end");
    this.onRead(read);
    const start = this.leaves.findLastIndex(({ from }) => from <= after + 1n);
    const page: NewPlant[] = [];
    if (isReverse) {
      const leaf = this.leaves.at(-1);
      if (leaf?.damage === "end") return page;
      if (leaf?.damage !== undefined) throw new StoreError(leaf.damage);
      const last = leaf?.plants.at(-1);
      return last !== undefined && last.id > after ? [last] : page;
    }
    for (const [i, leaf] of this.leaves.slice(start).entries()) {
      if (page.length === idsMax) break;
      if (leaf.damage === "end") break;
      if (leaf.damage !== undefined) throw new StoreError(leaf.damage);
      const found = leaf.plants.filter(({ id }) => i > 0 || id > after);
      page.push(...found.slice(0, idsMax - page.length));
    }
    return page;
  }
}

/** Returns a store of one page. */
function storeOf(plants: readonly NewPlant[]): LeafStore {
  return new LeafStore([{ from: ID_MIN, plants }]);
}

/** Returns leaves with the plants of ids, so many in each. */
function toLeaves(
  ids: readonly bigint[],
  nextSize: () => number,
  nextDamage: () => Leaf["damage"] = () => undefined,
): Leaf[] {
  const leaves: Leaf[] = [];
  for (let i = 0; i < ids.length;) {
    const plants = newPlants(ids.slice(i, i += nextSize()));
    const from = leaves.length === 0 ? ID_MIN : plants[0]?.id ?? ID_MAX;
    leaves.push({ from, plants, damage: nextDamage() });
  }
  return leaves;
}

/** Salvages a store: its plants in order, and the gaps. */
async function salvage(store: ListedStore) {
  const plants: Listed[] = [];
  const gaps: Gap[] = [];
  for await (const part of salvagePlants(store)) {
    if ("upTo" in part) gaps.push(part);
    else plants.push(...part);
  }
  return { plants, gaps };
}

/** Returns the plants outside damaged leaves, and a gap for each run of those. */
function expectedOf(leaves: readonly Leaf[]) {
  const plants: NewPlant[] = [];
  const gaps: Gap[] = [];
  for (const [i, leaf] of leaves.entries()) {
    const after = plants.at(-1)?.id ?? ID_MIN - 1n;
    const upTo = (leaves[i + 1]?.from ?? ID_MAX + 1n) - 1n;
    if (leaf.damage === undefined) plants.push(...leaf.plants);
    else {
      if (gaps.at(-1)?.after === after) gaps.pop();
      gaps.push({ after, upTo });
    }
  }
  // Nothing tells such a key from the end.
  const lastRead = leaves.findLastIndex(({ damage }) => damage === undefined);
  const isEnd = leaves.at(-1)?.damage === "end";
  if (isEnd && leaves[lastRead + 1]?.damage === "end") gaps.pop();
  return { plants, gaps };
}

/** Returns ids in order: rising ones as most clients send, or random ones. */
function drawIds(random: Random): bigint[] {
  const count = random.pick([1, PAGE_KEYS, 2_000]);
  if (random.chance(0.5)) return range(random.pick([ID_MIN, -20n, 1n]), count);
  const ids = Array.from({ length: count }, () => drawId(random));
  return [...new Set([ID_MIN, ...ids, ID_MAX])].sort((a, b) => a < b ? -1 : 1);
}

function drawDamage(random: Random, share: number): Leaf["damage"] {
  if (!random.chance(share)) return undefined;
  return random.pick(["corrupt", "newer format", "end"] as const);
}

Deno.test("listPlants() lists every plant above an id, in pages of PAGE_KEYS until one is shorter", async () => {
  for (const count of [0, 1, PAGE_KEYS - 1, PAGE_KEYS, 3 * PAGE_KEYS + 1]) {
    const plants = newPlants(range(-70n, count));
    const store = storeOf(plants);
    const pages = await Array.fromAsync(listPlants(store));
    assert.deepEqual(pages.flat(), plants);
    assert.equal(pages.length, Math.floor(count / PAGE_KEYS) + 1);
    assert.equal(store.reads, pages.length);
    const above = (await Array.fromAsync(listPlants(store, -69n))).flat();
    assert.deepEqual(above, plants.slice(2));
  }
});

Deno.test("listPlants() prefetches one page", async () => {
  const store = storeOf(newPlants(range(1n, 4 * PAGE_KEYS)));
  const pages = listPlants(store);
  for (let page = 1; page <= 2; page++) {
    await pages.next();
    await settled();
    assert.equal(store.reads, page + 1);
  }
  await pages.return(undefined);
});

/** Makes the page with an index fail. */
function failAt(store: LeafStore, failing: number): void {
  store.onRead = (index) => {
    if (index === failing) throw new StoreError("locked");
  };
}

Deno.test("listPlants() has the plants of every page before one that fails", async () => {
  const plants = newPlants(range(1n, 2 * PAGE_KEYS + 1));
  const store = storeOf(plants);
  failAt(store, 2);
  const found: Listed[] = [];
  await assert.rejects(async () => {
    for await (const page of listPlants(store)) found.push(...page);
  }, storeError("locked"));
  assert.deepEqual(found, plants.slice(0, 2 * PAGE_KEYS));
});

Deno.test("listPlants() that is stopped early ignores the failure of the prefetched page", async () => {
  const store = storeOf(newPlants(range(1n, 2 * PAGE_KEYS)));
  failAt(store, 1);
  // The test fails if a rejection is not handled.
  for await (const _page of listPlants(store)) break;
  assert.equal(store.reads, 2);
  await settled();
});

Deno.test("listPlants() and requireReadable() report a corrupt database if ids do not ascend", async () => {
  for (const ids of [[2n, 1n], [1n, 3n, 2n, 4n]]) {
    const store = storeOf(newPlants(ids));
    const listed = Array.fromAsync(listPlants(store));
    await assert.rejects(listed, storeError("corrupt"));
    await assert.rejects(requireReadable(store), storeError("corrupt"));
  }
  // Longer keys of another program have the same id.
  const [plant = assert.fail()] = newPlants([1n]);
  const page = [plant, { id: 1n, plant: null }, { id: 1n, plant: null }];
  const store = { listPage: () => Promise.resolve(page) };
  await requireReadable(store);
  // A page must be behind the one before.
  const circle = Array.fromAsync(listPlants(store, 1n));
  await assert.rejects(circle, storeError("corrupt"));
});

Deno.test("requireReadable() reads one page, and fails if this Deno cannot", async () => {
  const store = storeOf(newPlants(range(1n, 2 * PAGE_KEYS)));
  await requireReadable(store);
  assert.equal(store.reads, 1);
  const newer = new LeafStore(
    [{ from: ID_MIN, plants: [], damage: "newer format" }],
  );
  await assert.rejects(requireReadable(newer), storeError("newer format"));
});

Deno.test("salvagePlants() lists every plant outside of damaged pages, up to a tenth of all, names each gap exactly, and ends", () =>
  withSeed(async (random) => {
    for (let i = 0; i < 200; i++) {
      const sizeMax = random.int(20, 100);
      const share = random.pick([0, 0.01, 0.05, 0.1]);
      const leaves = toLeaves(
        drawIds(random),
        () => random.int(sizeMax / 2, sizeMax),
        () => drawDamage(random, share),
      );
      const store = new LeafStore(leaves);
      const { plants, gaps } = await salvage(store);
      const expected = expectedOf(leaves);
      const message = `store ${i}`;
      assert.deepEqual(gaps, expected.gaps, message);
      assert.ok(isDeepStrictEqual(plants, expected.plants), message);
      const damaged = leaves.filter((leaf) => leaf.damage !== undefined);
      const searched = (damaged.length + 1) * READS_A_LEAF_MAX;
      const reads = plants.length / PAGE_KEYS + searched;
      assert.ok(store.reads <= reads, `${message}: ${store.reads}`);
    }
  }));

Deno.test("salvagePlants() finds every part between damaged pages, also below the first one that it finds", async () => {
  // The search upwards from the damage passes over both parts inside it.
  const starts = [0n, 153n, 607n, 630n, 1_070n, 1_138n, 1_407n, 2_000n];
  const leaves = starts.slice(0, -1).map((start, i): Leaf => ({
    from: i === 0 ? ID_MIN : start,
    plants: newPlants(range(start, Number((starts[i + 1] ?? start) - start))),
    damage: i % 2 === 1 ? "corrupt" : undefined,
  }));
  assert.deepEqual(await salvage(new LeafStore(leaves)), expectedOf(leaves));
});

Deno.test("salvagePlants() names no gap for plants that are created at the end meanwhile", async () => {
  for (let at = 1; at < 12; at++) {
    const plants = newPlants(at % 2 === 0 ? [1n] : []);
    const store = storeOf(plants);
    store.onRead = (i) =>
      void (i === at >> 1 && plants.push(...newPlants([9n])));
    assert.deepEqual((await salvage(store)).gaps, [], `${at}`);
  }
});

Deno.test("salvagePlants() ends although plants are created at the end all the time", async () => {
  const plants = newPlants([1n]);
  const store = storeOf(plants);
  store.onRead = (i) => void plants.push(...newPlants([BigInt(i) + 2n]));
  assert.deepEqual((await salvage(store)).gaps, []);
  assert.ok(store.reads < 100, `${store.reads} reads`);
});

Deno.test("salvagePlants() names a gap where a page is in the place of another one, and lists no plant twice", async () => {
  const size = PAGE_KEYS / 4;
  const ids = range(1n, 10 * size);
  for (const [from, to] of [[2, 7], [7, 2]] as const) {
    const leaves = toLeaves(ids, () => size);
    const [source = assert.fail(), target = assert.fail()] = [from, to]
      .map((index) => leaves[index]);
    leaves[to] = { ...target, plants: source.plants };
    const { plants, gaps } = await salvage(new LeafStore(leaves));
    const listed = plants.map(({ id }) => id);
    assert.deepEqual(listed, ids.filter((id) => listed.includes(id)));
    const missing = ids.filter((id) => !listed.includes(id));
    assert.ok(missing.length >= size);
    for (const id of missing) {
      assert.ok(gaps.some((gap) => gap.after < id && id <= gap.upTo), `${id}`);
    }
  }
});

Deno.test("salvagePlants() names no gap if an error of reading has passed when it reads again", async () => {
  const plants = newPlants(range(1n, 3 * PAGE_KEYS));
  for (let at = 0; at < 4; at++) {
    const store = storeOf(plants);
    store.onRead = (i) => {
      if (i === at) throw new StoreError("corrupt");
    };
    assert.deepEqual(await salvage(store), { plants, gaps: [] });
  }
});

Deno.test("salvagePlants() throws an error that is no damage, in a page and in a search", async () => {
  for (const damage of [undefined, "corrupt"] as const) {
    const store = new LeafStore(toLeaves([1n], () => 1, () => damage));
    failAt(store, damage === undefined ? 0 : 3);
    await assert.rejects(salvage(store), storeError("locked"));
  }
});
