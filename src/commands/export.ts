import { storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { Progress } from "../console/progress.ts";
import { writeStdout } from "../console/stdout.ts";
import { LIST_MS_MAX } from "../limits.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { formatNewPlant, type Plant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { isIntact } from "../store/files/inspect.ts";
import { openToExport } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import { gapMessage, salvagePlants } from "../store/listing.ts";
import type { StoreLocation } from "../store/location.ts";
import { toStoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/** What an export has written, and what it could not write. */
interface Counts {
  exported: number;
  skipped: number;
  gaps: number;
}

/**
 * Writes plants to stdout, one NewPlant per line: those of some ids, or all in
 * the order of ids. Of a damaged store it writes what can be read.
 * @returns the exit status: 1 if an id or an entry of the store has no plant, or
 * if plants may be missing
 * @throws {OperatorError} if an id is invalid, the store cannot be read, or
 * stdout not written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  store: StoreLocation,
  ids: readonly string[],
): Promise<number> {
  const selected = new Set(ids.map(readId));
  using resources = new DisposableStack();
  const open = await openToExport(store, resources).catch((error) => {
    throw storeFailure("read", store, error);
  });
  const counts: Counts = { exported: 0, skipped: 0, gaps: 0 };
  let isIncomplete = false;
  try {
    if (selected.size > 0) await exportSelected(open, selected, counts);
    else {
      await exportAll(open, counts);
      isIncomplete = counts.gaps > 0 ||
        (store.kind === "file" && !isIntact(store.path));
    }
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    throw storeFailure("read", store, error);
  }
  const { exported, skipped, gaps } = counts;
  if (skipped === 0 && !isIncomplete) return 0;
  if (isIncomplete) {
    writeStderr(
      "the database is damaged, or a newer Deno stored plants in it: " +
        "plants may be missing or changed, also outside of gaps",
    );
  }
  const missing = gaps === 0 ? "" : `, ${countOf(gaps, "gap", "gaps")}`;
  writeStderr(`${exported} exported, ${skipped} skipped${missing}`);
  return EXIT_FAILURE;
}

async function exportAll(store: KvStore, counts: Counts): Promise<void> {
  const progress = new Progress();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  try {
    for await (const part of salvagePlants(store)) {
      if ("upTo" in part) {
        progress.print(gapMessage(part));
        counts.gaps++;
        continue;
      }
      let lines = "";
      for (const { id, plant } of part) {
        if (plant === null) {
          progress.print(`id ${id}: not a plant of this service`);
          counts.skipped++;
        } else {
          lines += `${formatNewPlant({ id, plant })}\n`;
          counts.exported++;
        }
      }
      await writeStdout(lines);
      if (isPiped) progress.update(counts.exported);
    }
  } finally {
    progress.clear();
  }
}

async function exportSelected(
  store: KvStore,
  ids: ReadonlySet<bigint>,
  counts: Counts,
): Promise<void> {
  for (const id of ids) {
    const found = await read(store, id);
    if (typeof found === "string") {
      writeStderr(`id ${id}: ${found}`);
      counts.skipped++;
    } else {
      await writeStdout(`${formatNewPlant({ id, plant: found })}\n`);
      counts.exported++;
    }
  }
}

/** Returns the plant of an id, or why there is none. */
async function read(store: KvStore, id: bigint): Promise<Plant | string> {
  try {
    const found = await withTimeout(store.read([id]), LIST_MS_MAX);
    const plant = found.get(id);
    if (plant === undefined) return "no such plant";
    return plant ?? "not a plant of this service";
  } catch (thrown) {
    const error = toStoreError(thrown);
    if (!error.isDamage) throw thrown;
    return `cannot be read: ${error.message}`;
  }
}
