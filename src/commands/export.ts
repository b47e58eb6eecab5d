import { SYSTEM_CLOCK } from "../clock.ts";
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
import { openExistingStore, type StoreLocation } from "../store/open.ts";
import { getPlant } from "../store/plants.ts";
import { type Damage, readAll } from "../store/read_all.ts";

/** What tests replace. */
interface ExportOptions {
  readonly open?: (location: StoreLocation) => Promise<KvStore>;
}

/**
 * Writes plants to stdout, one NewPlant per line: those of some ids, or all in
 * the order of ids. Plants after damage follow in descending order.
 * @returns the exit status: 1 if an id or an entry of the store has no plant, or
 * if plants cannot be read
 * @throws {StoreError} also when a part of the plants is written
 * @throws {OperatorError} if stdout cannot be written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  location: StoreLocation,
  ids: readonly bigint[],
  { open = openExistingStore }: ExportOptions = {},
): Promise<number> {
  const selected = new Set(ids);
  const store = await open(location);
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
    if (isPiped) showProgress(exported, SYSTEM_CLOCK());
  }

  let damage: Damage | undefined;
  try {
    if (selected.size === 0) damage = await readAll(store, writePage);
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
    const { ids, error } = damage;
    const problem = explain(error, location);
    printLine(`${ids} cannot be read (${error.kind}): ${problem}`);
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
