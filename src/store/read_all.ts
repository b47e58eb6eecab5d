import { ID_MAX, ID_MIN } from "../limits.ts";
import type { KvStore } from "./kv_store.ts";
import { listPlants, type PlantEntry } from "./plants.ts";
import { corrupt, isDamage, type StoreError } from "./store_error.ts";

/** What cannot be read. */
export interface Damage {
  /** Such as "ids after 1 before 3". */
  readonly ids: string;
  readonly error: StoreError;
}

type PageReader = (page: readonly PlantEntry[]) => Promise<void>;

/**
 * Reads all plants in the order of ids, also those of a store that is lost or corrupt:
 * up to the damage, if there is any, and then from the last plant back to it, as the
 * dump of SQLite does.
 * @returns the damage, if there is any
 * @throws {StoreError} if it is no damage
 * @throws the error of `readPage`
 */
export async function readAll(
  store: KvStore,
  readPage: PageReader,
): Promise<Damage | undefined> {
  // A damaged listing can end early without an error. So it counts as complete only if
  // it reaches the highest id that was found before it.
  const highestId = await findHighestId(store);
  const forward = await readListing(listPlants(store), readPage);
  const isComplete = forward.error === undefined &&
    (forward.lastId ?? NO_ID) >= highestId;
  if (isComplete) return undefined;

  const rest = listPlants(store, forward.lastId, true);
  const backward = await readListing(rest, readPage);
  const error = forward.error ?? backward.error;
  // The listing from the end has found no damage and no plant, so nothing is missing. An
  // operator has removed the last plants, or only the search for the highest id has
  // failed.
  if (error === undefined && backward.lastId === undefined) return undefined;
  const after = forward.lastId === undefined ? "" : ` after ${forward.lastId}`;
  const before = backward.lastId === undefined
    ? ""
    : ` before ${backward.lastId}`;
  return { ids: `ids${after}${before}`, error: error ?? corrupt() };
}

/** The highest id of a store without plants. */
const NO_ID = ID_MIN - 1n;

/** Finds the highest id: the highest possible one if damage hides it. */
async function findHighestId(store: KvStore): Promise<bigint> {
  try {
    for await (const [highest] of listPlants(store, undefined, true)) {
      // A page of longer keys of other programs has no plant.
      if (highest !== undefined) return highest.id;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return ID_MAX;
  }
  return NO_ID;
}

/** How a listing has ended. */
interface ListingEnd {
  /** The last id that was read, if there was one. */
  readonly lastId: bigint | undefined;
  /** The damage that ended it, if any. */
  readonly error: StoreError | undefined;
}

/** Reads a listing to its end, or to the damage in it. */
async function readListing(
  pages: AsyncIterable<readonly PlantEntry[]>,
  readPage: PageReader,
): Promise<ListingEnd> {
  let lastId: bigint | undefined;
  try {
    for await (const page of pages) {
      await readPage(page);
      lastId = page.at(-1)?.id ?? lastId;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { lastId, error };
  }
  return { lastId, error: undefined };
}
