import { storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { writeStdout } from "../console/stdout.ts";
import { LIST_MS_MAX } from "../limits.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { formatNewPlant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import type { StoreLocation } from "../store/location.ts";
import { StoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Writes plants to stdout, one NewPlant per line: those of some ids, or all in
 * the order of ids.
 * @returns the exit status: 1 if an id or an entry of the store has no plant
 * @throws {OperatorError} if an id is invalid, or if the store cannot be read or
 * stdout not written, also when a part of the plants is written
 * @throws {Deno.errors.BrokenPipe} if the reader has closed the pipe
 */
export async function exportPlants(
  location: StoreLocation,
  ids: readonly string[],
): Promise<number> {
  const selected = new Set(ids.map(readId));
  const store = await openExistingStore(location).catch((error) => {
    throw storeFailure("read", location, error);
  });
  let exported = 0;
  let skipped = 0;
  let lastId: bigint | undefined;
  try {
    const pages = selected.size > 0 ? readEach(store, selected) : store.list();
    for await (const page of pages) {
      let lines = "";
      for (const { id, plant } of page) {
        lastId = id;
        if (plant) {
          lines += `${formatNewPlant({ id, plant })}\n`;
          exported++;
        } else {
          const problem = plant === null
            ? "not a plant of this service, or damaged"
            : "no such plant";
          writeStderr(`id ${id}: ${problem}`);
          skipped++;
        }
      }
      await writeStdout(lines);
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const count = countOf(exported, "plant", "plants");
    const where = lastId === undefined ? "" : ` and beyond the id ${lastId}`;
    const action = `export more than ${count}${where} from`;
    const { message } = storeFailure(action, location, error);
    throw new OperatorError(message, EXIT_FAILURE);
  } finally {
    store.close();
  }
  if (skipped === 0) return 0;
  writeStderr(`${exported} exported, ${skipped} skipped`);
  return EXIT_FAILURE;
}

/** Reads ids one by one; a plant is `undefined` if there is none. */
async function* readEach(store: KvStore, ids: ReadonlySet<bigint>) {
  for (const id of ids) {
    const found = await withTimeout(store.read([id]), LIST_MS_MAX);
    yield [{ id, plant: found.get(id) }];
  }
}
