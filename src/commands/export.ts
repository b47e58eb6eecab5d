import type { StoreSetting } from "../config/settings.ts";
import { storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { Progress } from "../console/progress.ts";
import { writeStdout } from "../console/stdout.ts";
import { LIST_MS_MAX } from "../limits.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { formatNewPlant, type Plant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { listLines } from "../store/listing.ts";
import { openExistingStore } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import { isDamaged, toStoreError } from "../store/store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/** Which plants an export writes: all, if neither is given. */
export interface Selection {
  readonly ids: readonly string[];
  /** Only plants with greater ids. */
  readonly after: string | undefined;
}

/** What an export has written, and what it could not write. */
interface Counts {
  exported: number;
  skipped: number;
  /** The plants up to this id were read, if they are read in order. */
  lastId: bigint | undefined;
}

/**
 * Writes plants to stdout, one NewPlant per line: those selected by their ids,
 * or in the order of ids.
 * @returns the exit status: 1 if an id or an entry of the store has no plant
 * @throws {OperatorError} if an id is invalid, the store cannot be read, or
 * stdout not written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  store: StoreSetting,
  selection: Selection,
): Promise<number> {
  const ids = new Set(selection.ids.map(readId));
  const after = selection.after === undefined
    ? undefined
    : readId(selection.after);
  if (ids.size > 0 && after !== undefined) {
    throw new OperatorError("ids and --after are given: give one of them");
  }
  const open = await openExistingStore(store).catch((error) => {
    throw storeFailure("read", store, error);
  });
  const counts: Counts = { exported: 0, skipped: 0, lastId: after };
  try {
    if (ids.size > 0) await exportSelected(open, ids, counts);
    else await exportAll(open, after, counts);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    const { message, exitStatus } = storeFailure("read", store, error);
    const rest = counts.lastId === undefined
      ? ""
      : `; ids above ${counts.lastId} were not read`;
    throw new OperatorError(message + rest, exitStatus);
  } finally {
    open.close();
  }
  if (counts.skipped === 0) return 0;
  writeStderr(`${counts.exported} exported, ${counts.skipped} skipped`);
  return EXIT_FAILURE;
}

/** Writes all plants above an id, up to the first page that cannot be read. */
async function exportAll(
  store: KvStore,
  after: bigint | undefined,
  counts: Counts,
): Promise<void> {
  const progress = new Progress();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  try {
    for await (const page of listLines(store, after)) {
      counts.exported += page.plants;
      counts.skipped += page.foreign.length;
      for (const key of page.foreign) {
        progress.print(`${key}: not a plant of this service`);
      }
      await writeStdout(page.text);
      counts.lastId = page.lastId ?? counts.lastId;
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
    if (!isDamaged(error)) throw thrown;
    return `cannot be read: ${error.message}`;
  }
}
