/**
 * Plants as entries of Deno KV: the key is `["plants", id]`, the value a `Plant`.
 * This format never changes.
 */
import { type Plant, toPlant } from "../plant/plant.ts";
import { isOfKind, toStoreError } from "./store_error.ts";

/** An open Deno KV: what a store uses of `Deno.Kv`. */
export interface DenoKv {
  atomic(): Deno.AtomicOperation;
  get(key: Deno.KvKey): Promise<Deno.KvEntryMaybe<unknown>>;
  getMany(
    keys: readonly Deno.KvKey[],
  ): Promise<Deno.KvEntryMaybe<unknown>[]>;
  list(
    selector: Deno.KvListSelector,
    options: Deno.KvListOptions,
  ): AsyncIterable<Deno.KvEntry<unknown>>;
  close(): void;
}

/** The plants of ids. A plant is `null` if the stored value is no plant. */
export type PlantsById = ReadonlyMap<bigint, Plant | null>;

const PLANTS = "plants";

/** Maximum keys in one read: Deno KV's limit for `getMany`. */
const READ_KEYS_MAX = 10;

/** Keys that a listing fetches at once: Deno KV's limit. No run has so many. */
export const LIST_KEYS_MAX = 1_000;

/** Minimum ids in a run: one listing costs about as much as so many reads. */
const RUN_IDS_MIN = 4;

/**
 * Maximum distance between two ids of a run: a listing also reads those between. The
 * 100 ids of the largest commit span at most 99 * 4 + 1.
 */
const RUN_GAP_MAX = 4n;

/** Returns the key of a plant. */
export function keyOf(id: bigint): Deno.KvKey {
  return [PLANTS, id];
}

/** Returns whether a key is that of a plant: other programs may store longer ones. */
export function isPlantKey(key: Deno.KvKey): key is readonly [string, bigint] {
  const [first, id] = key;
  return key.length === 2 && first === PLANTS && typeof id === "bigint";
}

/**
 * Reads the plants of ids, and possibly those of ids between them.
 * @throws the error of Deno KV
 */
export async function readPlants(
  kv: DenoKv,
  ids: readonly bigint[],
): Promise<PlantsById> {
  const plants = new Map<bigint, Plant | null>();
  try {
    for (const { key, value, versionstamp } of await readEntries(kv, ids)) {
      if (isPlantKey(key) && versionstamp !== null) {
        plants.set(key[1], toPlant(value));
      }
    }
  } catch (error) {
    if (!isUndecodable(error)) throw error;
    // One by one, so that a value that cannot be decoded hides no other.
    await Promise.all(ids.map(async (id) => {
      const entry = await readEntry(kv, id);
      if (entry === "undecodable") plants.set(id, null);
      else if (entry.versionstamp !== null) {
        plants.set(id, toPlant(entry.value));
      }
    }));
  }
  return plants;
}

/**
 * Reads the entry of one id, or that its value cannot be decoded.
 * @throws the error of Deno KV
 */
export async function readEntry(
  kv: DenoKv,
  id: bigint,
): Promise<Deno.KvEntryMaybe<unknown> | "undecodable"> {
  try {
    return await kv.get(keyOf(id));
  } catch (error) {
    if (isUndecodable(error)) return "undecodable";
    throw error;
  }
}

function isUndecodable(error: unknown): boolean {
  return isOfKind(toStoreError(error), "newer format");
}

/**
 * Reads the entries of ids, and possibly those of ids between them.
 *
 * Ids that are close to each other are a run, and one listing reads a run: this costs
 * SQLite a quarter of single reads. Clients that repeat their last creates have such
 * ids. Measured, as a share of the rate of creates without repeats:
 *
 * | the clients repeat             | with listings | without |
 * | ------------------------------ | ------------- | ------- |
 * | 1 % of the creates, the last   | 85 %          | 68 %    |
 * | 10 % of the creates, older     | 95 %          | 62 %    |
 */
async function readEntries(
  kv: DenoKv,
  ids: readonly bigint[],
): Promise<Deno.KvEntryMaybe<unknown>[]> {
  const { long = [], short = [] } = Object.groupBy(
    toRuns(ids),
    ({ length }) => length < RUN_IDS_MIN ? "short" : "long",
  );
  const reads = long.map((run) => listRun(kv, run));
  const keys = short.flat().map(keyOf);
  for (let i = 0; i < keys.length; i += READ_KEYS_MAX) {
    reads.push(kv.getMany(keys.slice(i, i + READ_KEYS_MAX)));
  }
  return (await Promise.all(reads)).flat();
}

/** Splits ids into ascending runs without a gap above {@link RUN_GAP_MAX}. */
function toRuns(ids: readonly bigint[]): bigint[][] {
  const runs: bigint[][] = [];
  for (const id of ids.toSorted((a, b) => a < b ? -1 : 1)) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    if (last !== undefined && id - last <= RUN_GAP_MAX) run?.push(id);
    else runs.push([id]);
  }
  return runs;
}

/** Reads every entry between the first and the last id of a run. */
function listRun(
  kv: DenoKv,
  run: readonly bigint[],
): Promise<Deno.KvEntryMaybe<unknown>[]> {
  // A run is never empty. The defaults are for the type checker.
  const [first = 0n] = run;
  const last = run.at(-1) ?? first;
  const range = { start: keyOf(first), end: keyOf(last + 1n) };
  return Array.fromAsync(kv.list(range, { batchSize: LIST_KEYS_MAX }));
}
