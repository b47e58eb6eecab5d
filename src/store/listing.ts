/** Lists the plants of a store in the order of ids, also of a damaged one. */
import { ID_MAX, ID_MIN, LIST_MS_MAX, PAGE_KEYS } from "../limits.ts";
import type { Plant } from "../plant/plant.ts";
import { StoreError, toStoreError } from "../store_error.ts";
import { withTimeout } from "./retry.ts";

/** A stored id; the plant is `null` if the value is not one of this service. */
export interface Listed {
  readonly id: bigint;
  readonly plant: Plant | null;
}

/** Ids above one, up to another, that a damaged database does not show. */
export interface Gap {
  readonly after: bigint;
  readonly upTo: bigint;
}

/** Names a gap, for a person. */
export function gapMessage({ after, upTo }: Gap): string {
  return `ids ${after + 1n} to ${upTo} cannot be read`;
}

/** The part of a store that a listing uses. */
export interface ListedStore {
  /**
   * Lists the first ids above one, or the last ones, which descend; at most so many.
   * @throws {StoreError}
   */
  listPage(
    after: bigint,
    idsMax: number,
    isReverse?: boolean,
  ): Promise<readonly Listed[]>;
}

/** Below every id. */
const START = ID_MIN - 1n;

/**
 * Lists every plant in pages, and prefetches the next page.
 * @param after lists only plants with greater ids
 * @throws {StoreError} if a page cannot be read within {@link LIST_MS_MAX}, or if
 * the ids do not ascend
 */
export async function* listPlants(
  store: ListedStore,
  after = START,
): AsyncGenerator<readonly Listed[]> {
  for (let next = readPage(store, after);;) {
    const page = await next;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_KEYS) {
      yield page;
      return;
    }
    next = readPage(store, last.id);
    // Ignore the prefetched page if the consumer stops early.
    next.catch(() => {});
    yield page;
  }
}

/** Rejects if this Deno cannot read the first plants. @throws {StoreError} */
export async function requireReadable(store: ListedStore): Promise<void> {
  await readPage(store, START);
}

/** Rejects if neither the first nor the last plant can be read. @throws {StoreError} */
export async function requireAnyReadable(store: ListedStore): Promise<void> {
  for (const isReverse of [false, true]) {
    if (await readNext(store, START, isReverse) !== undefined) return;
  }
  throw new StoreError("corrupt");
}

/**
 * Lists every plant that can be read, and a gap for each place that cannot: parts
 * of a database are lost, others are not. A damaged key can end a listing without
 * an error, so the end is searched, too.
 */
export async function* salvagePlants(
  store: ListedStore,
): AsyncGenerator<readonly Listed[] | Gap> {
  let lastId = START;
  /** The last id when a listing first ended without an error. */
  let endId: bigint | undefined;
  while (lastId < ID_MAX) {
    let isDamaged = false;
    try {
      for await (const page of listPlants(store, lastId)) {
        lastId = page.at(-1)?.id ?? lastId;
        yield page;
      }
      // Later plants were created meanwhile, and may never end.
      endId ??= (await readNext(store, START, true))?.[0]?.id;
      if (endId !== undefined && lastId >= endId) return;
    } catch (error) {
      if (!toStoreError(error).isDamage) throw error;
      isDamaged = true;
    }
    // One by one up to the damage, which a page includes.
    const firstId = lastId;
    let next: readonly Listed[] | undefined;
    for (let ids = 0; isDamaged && ids < PAGE_KEYS; ids++) {
      next = await readNext(store, lastId);
      if (next?.[0] === undefined) break;
      lastId = next[0].id;
      yield next;
    }
    if (next !== undefined) {
      // Without an error, it has passed, or the pages are not in order.
      const page = await readNext(store, firstId, false, PAGE_KEYS);
      if (page !== undefined) continue;
      if (lastId > firstId) {
        yield { after: firstId, upTo: lastId };
        continue;
      }
    }
    const upTo = await findReadable(store, lastId);
    if (!isDamaged) {
      if (upTo === undefined) return;
      // A fresh search can find what the listing did not.
      const found = await readNext(store, lastId);
      if (found?.[0] !== undefined) {
        lastId = found[0].id;
        yield found;
        continue;
      }
    }
    yield { after: lastId, upTo: upTo ?? ID_MAX };
    lastId = upTo ?? ID_MAX;
  }
}

/**
 * Finds an id above another one so that the plants above it can be read. It tries
 * ids upwards from the damage, up to the last plant, and then downwards from what it
 * has found: between damaged pages there may be others.
 * @returns `ID_MAX` if the rest is damaged, `undefined` if there is none
 */
async function findReadable(
  store: ListedStore,
  after: bigint,
): Promise<bigint | undefined> {
  const ends = await readNext(store, after, true);
  const last = ends?.[0];
  // At least one id further, so that the search ends.
  let readable = last === undefined
    ? ID_MAX
    : last.id - (last.id - after > 1n ? 1n : 0n);
  for (let id = after + 1n; id < readable; id += stepAt(id, after)) {
    if (!await isReadable(store, id)) continue;
    readable = await findFirst(store, after, id);
    break;
  }
  for (let id = readable - 1n; id > after; id -= stepAt(id, readable)) {
    if (!await isReadable(store, id)) continue;
    readable = await findFirst(store, after, id);
    id = readable;
  }
  return ends?.length === 0 && readable === ID_MAX ? undefined : readable;
}

/**
 * Returns a part of the distance from an id to another one, or to 0 if that is
 * closer: ids are close to each other, and those that clients count close to 0.
 */
function stepAt(id: bigint, other: bigint): bigint {
  const toOther = id < other ? other - id : id - other;
  const toZero = id < 0n ? -id : id;
  const distance = toOther < toZero ? toOther : toZero;
  return distance / 4n + 1n;
}

/** Finds an id between a damaged and a readable one that is next to damage. */
async function findFirst(
  store: ListedStore,
  after: bigint,
  upTo: bigint,
): Promise<bigint> {
  let [damaged, readable] = [after, upTo];
  while (readable - damaged > 1n) {
    const middle = (readable + damaged) / 2n;
    if (await isReadable(store, middle)) readable = middle;
    else damaged = middle;
  }
  return readable;
}

/** Returns whether a plant above an id can be read. */
async function isReadable(store: ListedStore, id: bigint): Promise<boolean> {
  const next = await readNext(store, id);
  return next !== undefined && next.length > 0;
}

/** Reads the first plants above an id, or the last ones; `undefined` if damaged. */
async function readNext(
  store: ListedStore,
  after: bigint,
  isReverse = false,
  idsMax = 1,
): Promise<readonly Listed[] | undefined> {
  try {
    return await readPage(store, after, idsMax, isReverse);
  } catch (error) {
    if (toStoreError(error).isDamage) return undefined;
    throw error;
  }
}

/**
 * Reads the next page.
 * @throws {StoreError} also if the ids do not ascend: parts of the database are in
 * the place of others, so a listing may go round in a circle
 */
async function readPage(
  store: ListedStore,
  after: bigint,
  idsMax = PAGE_KEYS,
  isReverse = false,
): Promise<readonly Listed[]> {
  const listed = store.listPage(after, idsMax, isReverse);
  const page = await withTimeout(listed, LIST_MS_MAX);
  let next = after + 1n;
  for (const { id } of page) {
    if (id < next) throw new StoreError("corrupt");
    next = id;
  }
  return page;
}
