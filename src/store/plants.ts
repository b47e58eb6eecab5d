/** What an operator does with an open store. Every read and write has a time limit. */
import { isDeepStrictEqual } from "node:util";
import { ID_MAX, ID_MIN, WRITE_MS_MAX } from "../limits.ts";
import { isSamePlant, type Plant, toPlant } from "../plant/plant.ts";
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
  // The ids that can follow are between these.
  let lower = after;
  let upper = ID_MAX + 1n;
  const range = { start: keyOf(lower + 1n), end: keyOf(upper) };
  for await (const page of listPages(store, range, reverse)) {
    const plants: PlantEntry[] = [];
    for (const { key, value } of page) {
      // Other programs may store longer keys.
      if (!isPlantKey(key)) continue;
      const [, id] = key;
      if (id <= lower || id >= upper) {
        // Damage has changed the order. This listing might never end.
        yield plants;
        throw corrupt();
      }
      if (reverse) upper = id;
      else lower = id;
      plants.push({ id, plant: toPlant(value) });
    }
    yield plants;
  }
}

/**
 * Lists the entries of a range in pages. If a page cannot be read, reads the rest one
 * key at a time, and stops at the first that cannot be read.
 * @throws {StoreError}
 */
async function* listPages(
  store: KvStore,
  range: { readonly start: Deno.KvKey; readonly end: Deno.KvKey },
  reverse: boolean,
): AsyncGenerator<readonly Deno.KvEntry<unknown>[]> {
  let rest = range;
  let last: Deno.KvKey | undefined;
  let limit = PAGE_KEYS;
  for (;;) {
    let page: readonly Deno.KvEntry<unknown>[];
    try {
      const options = { limit, reverse };
      const reading = store.runUnverified((kv) =>
        Array.fromAsync(kv.list(rest, options))
      );
      page = await withTimeout(READ_MS_MAX, reading);
    } catch (error) {
      if (limit === 1 || !isDamage(error)) throw error;
      limit = 1;
      continue;
    }
    yield page;
    const key = page.at(-1)?.key;
    if (key === undefined || page.length < limit) return;
    // Damage can make Deno list the same key again: this loop would not end.
    if (isDeepStrictEqual(key, last)) throw corrupt();
    last = key;
    rest = reverse
      ? { ...range, end: key }
      : { ...range, start: [...key, FIRST_PART] };
  }
}

/** What a change has found: another value, none, or the plant that it would store. */
export type Change = "changed" | "absent" | "unchanged";

/**
 * Replaces the value of an id in one atomic step, or removes it. The old value may be
 * no plant, or one that cannot be decoded. Nothing is created if there is none. Waits
 * while another process has the lock.
 * @param plant the new value; `undefined` removes the old one
 * @throws {StoreError}
 */
export function changePlant(
  store: KvStore,
  id: bigint,
  plant: Plant | undefined,
  { timeoutMs = WRITE_MS_MAX }: { readonly timeoutMs?: number } = {},
): Promise<Change> {
  const key = keyOf(id);
  return retryWhileLocked(timeoutMs, async () => {
    for (;;) {
      const entry = await store.run((kv) => readEntry(kv, id));
      if (entry !== "undecodable") {
        if (entry.versionstamp === null) return "absent";
        const stored = toPlant(entry.value);
        const isSame = plant !== undefined && stored !== null &&
          isSamePlant(plant, stored);
        if (isSame) return "unchanged";
      }
      // As a check, an entry requires that it has not changed. A value that cannot be
      // decoded has no known version, so it is changed whatever it is by now, even if
      // it is gone.
      const check = entry === "undecodable" ? ALWAYS : entry;
      const { ok } = await store.run((kv) => {
        const operation = kv.atomic().check(check);
        if (plant === undefined) operation.delete(key);
        else operation.set(key, plant);
        return operation.commit();
      });
      if (ok) return "changed";
      // The check may have failed because of this very write, sent twice. So it is
      // unknown whether the plant has changed.
      if (store.repeatsWrites) {
        throw new StoreError("changed", "another client has changed it");
      }
    }
  });
}
