import { SYSTEM_CLOCK } from "../clock.ts";
import type { StoreSetting } from "../config/settings.ts";
import { explain } from "../console/failures.ts";
import {
  eraseProgress,
  printLine,
  showProgress,
  writeStdout,
} from "../console/output.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { formatNewPlant, type Plant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { getPlant, listPlants, type PlantEntry } from "../store/plants.ts";
import { corrupt, isDamage, type StoreError } from "../store/store_error.ts";

/**
 * Writes plants to stdout, one NewPlant per line: those of some ids, or all in
 * the order of ids. Behind damage, the order is the reverse.
 * @returns the exit status: 1 if an id or an entry of the store has no plant, or
 * if plants cannot be read
 * @throws {StoreError} also when a part of the plants is written
 * @throws {OperatorError} if stdout cannot be written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  location: StoreSetting,
  ids: readonly bigint[],
): Promise<number> {
  const selected = new Set(ids);
  const store = await openExistingStore(location, {
    onDelay: printLine,
  });
  const startMs = SYSTEM_CLOCK();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  let exported = 0;
  let skipped = 0;
  let damage = "";
  const pages: AsyncGenerator<readonly IdEntry[]> = selected.size > 0
    ? readEach(store, selected)
    : listAll(store, (which, error) => {
      damage = `${which} cannot be read: ${explain(error, location)}`;
    });
  try {
    for await (const page of pages) {
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
  } finally {
    eraseProgress();
    store.close();
  }
  if (damage !== "") printLine(damage);
  if (skipped === 0 && damage === "") return 0;
  printLine(`${exported} exported, ${skipped} skipped`);
  return EXIT_FAILURE;
}

/** The plant of an id: `null` if its value is not a plant, `undefined` if none. */
interface IdEntry {
  readonly id: bigint;
  readonly plant: Plant | null | undefined;
}

/**
 * Lists all plants. At damage it continues with the last plant, and back to the
 * damage, as the dump of SQLite does.
 * @param damaged called at the end with the ids that cannot be read: `for await`
 * discards what a generator returns
 */
async function* listAll(
  store: KvStore,
  damaged: (which: string, error: StoreError) => void,
): AsyncGenerator<readonly PlantEntry[]> {
  // Read first: a damaged key can end a listing as if no plant followed.
  const highestId = await highestIdOf(store);
  const { error, lastId: from } = yield* untilDamage(listPlants(store));
  const isCut = error === undefined && highestId !== undefined &&
    (from === undefined || from < highestId);
  if (error === undefined && !isCut) return;
  const backward = listPlants(store, from, true);
  const { lastId: to } = yield* untilDamage(backward);
  // Not cut by damage: an operator has removed the last plants meanwhile.
  if (isCut && to === undefined) return;
  const after = from === undefined ? "" : ` after ${from}`;
  const before = to === undefined ? "" : ` before ${to}`;
  damaged(`ids${after}${before}`, error ?? corrupt());
}

/** Returns the highest id; `undefined` if there is none, or it cannot be read. */
async function highestIdOf(store: KvStore): Promise<bigint | undefined> {
  try {
    for await (const [highest] of listPlants(store, undefined, true)) {
      return highest?.id;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  return undefined;
}

/** How a listing has ended. */
interface ListingEnd {
  /** The last id that was read, if there was one. */
  readonly lastId: bigint | undefined;
  /** The damage that ended it, if any. */
  readonly error: StoreError | undefined;
}

/** Passes a listing on, and returns how it has ended. */
async function* untilDamage(
  pages: AsyncIterable<readonly PlantEntry[]>,
): AsyncGenerator<readonly PlantEntry[], ListingEnd> {
  let lastId: bigint | undefined;
  try {
    for await (const page of pages) {
      yield page;
      lastId = page.at(-1)?.id ?? lastId;
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { lastId, error };
  }
  return { lastId, error: undefined };
}

/** Reads ids one by one; a plant is `undefined` if there is none. */
async function* readEach(
  store: KvStore,
  ids: ReadonlySet<bigint>,
): AsyncGenerator<readonly IdEntry[]> {
  for (const id of ids) yield [{ id, plant: await getPlant(store, id) }];
}
