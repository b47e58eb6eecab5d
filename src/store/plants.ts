/** What an operator does with an open store. Every read and write has a time limit. */
import { isDeepStrictEqual } from "node:util";
import { COMMIT_MS_MAX, ID_MAX, ID_MIN } from "../limits.ts";
import { type Plant, toPlant } from "../plant/plant.ts";
import { isPlantKey, keyOf, readEntry } from "./entries.ts";
import { ALWAYS, type KvStore } from "./kv_store.ts";
import { retryWhileLocked, withTimeout } from "./retry.ts";
import { corrupt, isDamage, StoreError } from "./store_error.ts";

/** A stored id; the plant is `null` if the value is not one of this service. */
export interface PlantEntry {
  readonly id: bigint;
  readonly plant: Plant | null;
}

/**
 * Keys in one page of a listing: 8 MiB of the largest plants. With 64, an export
 * takes a third longer.
 */
export const PAGE_KEYS = 128;

/** Time for one page of a listing, or for one plant. */
const READ_MS_MAX = 10_000;

/** The smallest part of a key: a key with it appended is the next one after the key. */
const FIRST_PART = new Uint8Array();

/**
 * Reads a plant.
 * @returns `null` if the value is not a plant of this service, or cannot be
 * decoded; `undefined` if there is no value
 * @throws {StoreError}
 */
export async function getPlant(
  store: KvStore,
  id: bigint,
): Promise<Plant | null | undefined> {
  const plants = await withTimeout(READ_MS_MAX, store.read([id]));
  return plants.get(id);
}

/**
 * Lists the plants above an id, in the order of ids or in reverse, in pages. At
 * damage, it yields the plants before it, then throws.
 * @throws {StoreError}
 */
export async function* listPlants(
  store: KvStore,
  after = ID_MIN - 1n,
  reverse = false,
): AsyncGenerator<readonly PlantEntry[]> {
  let before = ID_MAX + 1n;
  let [start, end] = [keyOf(after + 1n), keyOf(before)];
  /** Keys to read one by one, because a page with them could not be read. */
  let singles = 0;
  let previousLast: Deno.KvKey | undefined;
  for (;;) {
    const limit = singles > 0 ? 1 : PAGE_KEYS;
    let page: readonly Deno.KvEntry<unknown>[];
    try {
      const range = { start, end };
      const reading = store.runUnverified((kv) =>
        Array.fromAsync(kv.list(range, { limit, reverse }))
      );
      page = await withTimeout(READ_MS_MAX, reading);
    } catch (error) {
      if (limit === 1 || !isDamage(error)) throw error;
      // The keys before the damage can be read. So can the whole page if only one read
      // has failed.
      singles = PAGE_KEYS;
      continue;
    }
    if (singles > 0) singles--;
    const plants: PlantEntry[] = [];
    for (const { key, value } of page) {
      // Other programs may store longer keys.
      if (!isPlantKey(key)) continue;
      const [, id] = key;
      if (id <= after || id >= before) {
        // Damage has changed the order. This listing might never end.
        yield plants;
        throw corrupt();
      }
      if (reverse) before = id;
      else after = id;
      plants.push({ id, plant: toPlant(value) });
    }
    yield plants;
    const last = page.at(-1)?.key;
    if (last === undefined || page.length < limit) return;
    // Damage can make Deno list the same key again: this loop would not end.
    if (isDeepStrictEqual(last, previousLast)) throw corrupt();
    previousLast = last;
    if (reverse) end = last;
    else start = [...last, FIRST_PART];
  }
}

/**
 * Removes the value of an id, also one that cannot be decoded. It waits while
 * another process has the lock.
 * @returns whether there was one
 * @throws {StoreError}
 */
export function removePlant(
  store: KvStore,
  id: bigint,
  timeoutMs = COMMIT_MS_MAX,
): Promise<boolean> {
  return retryWhileLocked(timeoutMs, async () => {
    for (;;) {
      const entry = await store.run((kv) => readEntry(kv, id));
      if (entry !== "undecodable" && entry.versionstamp === null) return false;
      // As a check, an entry requires that it has not changed. A value that cannot be
      // decoded has no known version, so it is removed whatever it is by now.
      const check = entry === "undecodable" ? ALWAYS : entry;
      const { ok } = await store.run((kv) =>
        kv.atomic().check(check).delete(keyOf(id)).commit()
      );
      if (ok) return true;
      // The change may be this very removal.
      if (store.repeatsWrites) {
        throw new StoreError("changed", "another client has changed it");
      }
    }
  });
}
