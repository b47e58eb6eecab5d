import { SYSTEM_CLOCK } from "../clock.ts";
import type { StoreSetting } from "../config/settings.ts";
import { explain } from "../console/failures.ts";
import {
  eraseProgress,
  printLine,
  showProgress,
  writeStdout,
} from "../console/output.ts";
import { ID_MAX, ID_MIN } from "../limits.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { formatNewPlant, type Plant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore, type OpenOptions } from "../store/open.ts";
import { getPlant, listPlants, type PlantEntry } from "../store/plants.ts";
import { corrupt, isDamage, type StoreError } from "../store/store_error.ts";

/**
 * Writes plants to stdout, one NewPlant per line: those of some ids, or all in
 * the order of ids. Plants after damage follow in descending order.
 * @param open replaced by tests
 * @returns the exit status: 1 if an id or an entry of the store has no plant, or
 * if plants cannot be read
 * @throws {StoreError} also when a part of the plants is written
 * @throws {OperatorError} if stdout cannot be written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  location: StoreSetting,
  ids: readonly bigint[],
  open: (
    location: StoreSetting,
    options: OpenOptions,
  ) => Promise<KvStore> = openExistingStore,
): Promise<number> {
  const selected = new Set(ids);
  const store = await open(location, { onDelay: printLine });
  const startMs = SYSTEM_CLOCK();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  let exported = 0;
  let skipped = 0;

  async function writePage(page: readonly IdEntry[]): Promise<void> {
    let lines = "";
    for (const { id, plant } of page) {
      if (plant) {
        lines += `${formatNewPlant({ id, plant })}\n`;
        exported++;
      } else {
        const problem = plant === null
          ? "not a plant of this service"
          : "no such plant";
        printLine(`id ${id}: ${problem}`);
        skipped++;
      }
    }
    await writeStdout(lines);
    if (isPiped) showProgress(exported, startMs, SYSTEM_CLOCK());
  }

  let damage: Damage | undefined;
  try {
    if (selected.size === 0) damage = await writeAll(store, writePage);
    else {
      for (const id of selected) {
        await writePage([{ id, plant: await getPlant(store, id) }]);
      }
    }
  } finally {
    eraseProgress();
    store.close();
  }
  if (damage !== undefined) {
    const why = explain(damage.error, location);
    printLine(`${damage.ids} cannot be read: ${why}`);
  }
  if (skipped === 0 && damage === undefined) return 0;
  const missing = damage === undefined ? "" : ", others cannot be read";
  printLine(`${exported} exported, ${skipped} skipped${missing}`);
  return EXIT_FAILURE;
}

/** The plant of an id: `null` if its value is not a plant, `undefined` if none. */
interface IdEntry {
  readonly id: bigint;
  readonly plant: Plant | null | undefined;
}

type PageWriter = (page: readonly IdEntry[]) => Promise<void>;

/** What cannot be read. */
interface Damage {
  /** Such as "ids after 1 before 3". */
  readonly ids: string;
  readonly error: StoreError;
}

/**
 * Writes all plants: up to the damage, if there is any, and then from the last plant
 * back to it, as the dump of SQLite does.
 * @returns the damage, if there is any
 */
async function writeAll(
  store: KvStore,
  writePage: PageWriter,
): Promise<Damage | undefined> {
  // A damaged key can end a listing as if no plant followed, so the listing must reach the
  // highest id. It is read first, because clients may create higher ones meanwhile.
  const highestId = await findHighestId(store);
  const forward = await writeListing(listPlants(store), writePage);
  const isComplete = forward.error === undefined &&
    (forward.lastId ?? NO_ID) >= highestId;
  if (isComplete) return undefined;

  const rest = listPlants(store, forward.lastId, true);
  const backward = await writeListing(rest, writePage);
  const error = forward.error ?? backward.error;
  // No damage and no further plant: nothing is missing. An operator has removed the last
  // plants meanwhile, or only the read of the highest id has failed.
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

/** Writes a listing to its end, or to the damage in it. */
async function writeListing(
  pages: AsyncIterable<readonly PlantEntry[]>,
  writePage: PageWriter,
): Promise<ListingEnd> {
  let lastId: bigint | undefined;
  try {
    for await (const page of pages) {
      await writePage(page);
      lastId = page.at(-1)?.id ?? lastId;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { lastId, error };
  }
  return { lastId, error: undefined };
}
