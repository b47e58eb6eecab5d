/** Lists what is left of a damaged store. */
import { ID_MAX, ID_MIN, LIST_MS_MAX, PAGE_KEYS } from "../limits.ts";
import {
  lastIdOf,
  type Listed,
  type ListedStore,
  listPlants,
} from "./listing.ts";
import { withTimeout } from "./retry.ts";
import { toStoreError } from "../store_error.ts";

/** Ids above one, up to another, that a damaged database does not show. */
export interface Gap {
  readonly after: bigint;
  readonly upTo: bigint;
}

/**
 * Lists every plant that can be read as {@link listPlants}, and a gap for each
 * place that cannot: parts of a database are lost, others are not.
 */
export async function* salvagePlants(
  store: ListedStore,
): AsyncGenerator<readonly Listed[] | Gap> {
  let lastId = ID_MIN - 1n;
  let after: bigint | undefined;
  while (lastId < ID_MAX) {
    try {
      for await (const page of listPlants(store, after)) {
        lastId = lastIdOf(page, lastId) ?? lastId;
        yield page;
      }
      return;
    } catch (error) {
      if (!toStoreError(error).isDamage) throw error;
    }
    // One by one up to the damage, which a page includes.
    const firstId = lastId;
    let page: readonly Listed[] | undefined;
    for (let keys = 0; keys < PAGE_KEYS; keys++) {
      page = await readNext(store, lastId);
      if (typeof page?.[0] !== "object") break;
      lastId = lastIdOf(page, lastId) ?? lastId;
      yield page;
    }
    // Without an error, the pages are not in order.
    if (page !== undefined && lastId > firstId) {
      yield { after: firstId, upTo: lastId };
    } else {
      const upTo = await findReadable(store, lastId);
      yield { after: lastId, upTo };
      lastId = upTo;
    }
    after = lastId;
  }
}

/** Finds an id close to another one so that the plants above it can be read. */
async function findReadable(
  store: ListedStore,
  after: bigint,
): Promise<bigint> {
  let damaged = after;
  let readable = ID_MAX;
  for (let step = 1n; after + step < ID_MAX; step *= 2n) {
    if (await readNext(store, after + step) !== undefined) {
      readable = after + step;
      break;
    }
    damaged = after + step;
  }
  while (readable - damaged > 1n) {
    const middle = (readable + damaged) / 2n;
    if (await readNext(store, middle) === undefined) damaged = middle;
    else readable = middle;
  }
  return readable;
}

/** Reads the first plant above an id; `undefined` if it is damaged. */
async function readNext(
  store: ListedStore,
  after: bigint,
): Promise<readonly Listed[] | undefined> {
  try {
    const listed = store.listPage(1, { after, cursor: "" });
    return (await withTimeout(listed, LIST_MS_MAX)).page;
  } catch (error) {
    if (toStoreError(error).isDamage) return undefined;
    throw error;
  }
}
