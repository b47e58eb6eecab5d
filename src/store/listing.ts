/** Lists the plants of a store, page by page. */
import { LIST_MS_MAX, PAGE_KEYS } from "../limits.ts";
import type { NewPlant } from "../plant/plant.ts";
import { withTimeout } from "./retry.ts";
import { StoreError } from "../store_error.ts";

/** A plant, or the key of a value that is not a plant of this service. */
export type Listed = NewPlant | string;

/** Where a page starts. */
export interface PageStart {
  /** Lists only plants with greater ids; the same for every page of a listing. */
  readonly after?: bigint | undefined;
  /** The end of the page before; empty for the first page. */
  readonly cursor: string;
}

/** The part of the store that a listing uses. */
export interface ListedStore {
  /** Lists some keys in their order, and the cursor at their end. */
  listPage(
    keysMax: number,
    start: PageStart,
  ): Promise<{ readonly page: readonly Listed[]; readonly cursor: string }>;
}

/**
 * Lists every plant in the order of ids, in pages, and prefetches the next page.
 * @param after lists only plants with greater ids
 * @throws {StoreError} if a page cannot be read within {@link LIST_MS_MAX}, or if
 * the ids do not ascend
 */
export async function* listPlants(
  store: ListedStore,
  after?: bigint,
): AsyncGenerator<readonly Listed[]> {
  let cursor = "";
  let lastId = after;
  async function readPage(): Promise<readonly Listed[]> {
    const listed = store.listPage(PAGE_KEYS, { after, cursor });
    const { page, cursor: end } = await withTimeout(listed, LIST_MS_MAX);
    lastId = lastIdOf(page, lastId);
    cursor = end;
    return page;
  }
  for (let next = readPage();;) {
    const page = await next;
    if (page.length < PAGE_KEYS) {
      yield page;
      return;
    }
    next = readPage();
    // Ignore the prefetched page if the consumer stops early.
    next.catch(() => {});
    yield page;
  }
}

/** Rejects if this Deno cannot read the first plants. @throws {StoreError} */
export async function requireReadable(store: ListedStore): Promise<void> {
  const { page } = await store.listPage(PAGE_KEYS, { cursor: "" });
  lastIdOf(page, undefined);
}

/**
 * Returns the last id of a page, or that of the pages before it.
 * @throws {StoreError} if the ids do not ascend: parts of the database are in
 * the place of others, so a listing may go round in a circle
 */
export function lastIdOf(
  page: readonly Listed[],
  previous: bigint | undefined,
): bigint | undefined {
  let last = previous;
  for (const entry of page) {
    if (typeof entry === "string") continue;
    if (last !== undefined && entry.id <= last) {
      throw new StoreError("corrupt");
    }
    last = entry.id;
  }
  return last;
}
