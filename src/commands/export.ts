import { ID_MAX, ID_MIN, LIST_MS_MAX } from "../limits.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { formatPages } from "../plant/lines.ts";
import { formatNewPlant, type Plant } from "../plant/plant.ts";
import { isDamaged, toFileError } from "../files/file_error.ts";
import type { KvStore } from "../store/kv_store.ts";
import type { StoreLocation } from "../store/location.ts";
import { openStoreToRead } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import { writeStderr } from "../telemetry/log.ts";
import { Progress } from "../console/progress.ts";
import { writeStdout } from "../console/stdout.ts";
import { storeFailure } from "../console/failures.ts";

/** What an export has written, and what it could not write. */
interface Counts {
  exported: number;
  skipped: number;
  /** The last one that was exported. */
  lastId: bigint | undefined;
}

/**
 * Writes plants to stdout, one NewPlant per line.
 * @param ids the plants to write; all of them, in the order of ids, if empty
 * @returns the exit status: 1 if an id or an entry of the store has no plant
 * @throws {OperatorError} if an id is invalid, the store cannot be read, or
 * stdout not written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  location: StoreLocation,
  ids: readonly string[],
): Promise<number> {
  const selected = new Set(ids.map(readId));
  const store = await openStoreToRead(location).catch((error) => {
    throw storeFailure("read", location, error);
  });
  const counts: Counts = { exported: 0, skipped: 0, lastId: undefined };
  try {
    if (selected.size > 0) await exportSelected(store, selected, counts);
    else await exportAll(store, counts);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    const failure = storeFailure("read", location, error);
    throw counts.lastId === undefined ? failure : new OperatorError(
      `${failure.message}; the export stopped after id ${counts.lastId}`,
      EXIT_FAILURE,
    );
  } finally {
    store.close();
  }
  if (counts.skipped === 0) return 0;
  writeStderr(`${counts.exported} exported, ${counts.skipped} skipped`);
  return EXIT_FAILURE;
}

async function exportAll(store: KvStore, counts: Counts): Promise<void> {
  const progress = new Progress();
  // On a terminal the plants themselves show the progress.
  const isPiped = !Deno.stdout.isTerminal();
  try {
    for await (const page of formatPages(store.pages())) {
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
  const { found, damaged } = await readSelected(store, ids);
  let text = "";
  for (const id of ids) {
    const damage = damaged.get(id);
    if (damage !== undefined) {
      writeStderr(`id ${id}: cannot be read: ${damage}`);
      counts.skipped++;
      continue;
    }
    const plant = found.get(id);
    if (plant) {
      text += `${formatNewPlant({ id, plant })}\n`;
      counts.exported++;
    } else {
      const problem = plant === null
        ? "not a plant of this service"
        : "no such plant";
      writeStderr(`id ${id}: ${problem}`);
      counts.skipped++;
    }
  }
  await writeStdout(text);
}

/** Reads plants, one by one if some of them are damaged. */
async function readSelected(store: KvStore, ids: ReadonlySet<bigint>) {
  const read = (ids: readonly bigint[]) =>
    withTimeout(store.read(ids), LIST_MS_MAX);
  const damaged = new Map<bigint, string>();
  try {
    return { found: await read([...ids]), damaged };
  } catch (error) {
    if (!isDamaged(error)) throw error;
  }
  const found = new Map<bigint, Plant | null>();
  for (const id of ids) {
    try {
      const plant = (await read([id])).get(id);
      if (plant !== undefined) found.set(id, plant);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      damaged.set(id, toFileError(error).message);
    }
  }
  return { found, damaged };
}

function readId(text: string): bigint {
  const id = /^-?\d{1,40}$/.test(text) ? BigInt(text) : undefined;
  if (id !== undefined && id >= ID_MIN && id <= ID_MAX) return id;
  throw new OperatorError(
    `expected an id from ${ID_MIN} to ${ID_MAX}, got "${text}"`,
  );
}
