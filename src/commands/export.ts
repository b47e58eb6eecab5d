import { explain, storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { writeStdout } from "../console/stdout.ts";
import { LIST_MS_MAX } from "../limits.ts";
import { toLine } from "../messages.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { formatNewPlant } from "../plant/plant.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import type { StoreLocation } from "../store/location.ts";
import { StoreError, toStoreError } from "../store_error.ts";
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
  let damage = "";
  const pages = selected.size > 0
    ? readEach(store, selected)
    : listAll(store, (gap, error) => {
      damage = `${gap} cannot be read: ${explain(error, location)}`;
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
          writeStderr(`id ${id}: ${problem}`);
          skipped++;
        }
      }
      await writeStdout(lines);
    }
  } catch (error) {
    if (error instanceof StoreError) {
      throw storeFailure("read", location, error);
    }
    throw error;
  } finally {
    store.close();
  }
  if (damage !== "") writeStderr(toLine(damage));
  if (skipped === 0 && damage === "") return 0;
  writeStderr(`${exported} exported, ${skipped} skipped`);
  return EXIT_FAILURE;
}

/**
 * Lists all plants. At damage it goes on with the last plant, and back to the
 * damage, as the dump of SQLite does.
 * @param damaged called with the ids that cannot be read
 */
async function* listAll(
  store: KvStore,
  damaged: (ids: string, error: StoreError) => void,
) {
  let lastId: bigint | undefined;
  let nextId: bigint | undefined;
  try {
    for await (const page of store.list()) {
      yield page;
      lastId = page.at(-1)?.id ?? lastId;
    }
    return;
  } catch (thrown) {
    const error = toStoreError(thrown);
    if (!error.isDamage) throw error;
    try {
      for await (const page of store.list(lastId, true)) {
        yield page;
        nextId = page.at(-1)?.id ?? nextId;
      }
    } catch (other) {
      if (!toStoreError(other).isDamage) throw other;
    }
    const after = lastId === undefined ? "" : ` after ${lastId}`;
    const before = nextId === undefined ? "" : ` before ${nextId}`;
    damaged(`ids${after}${before}`, error);
  }
}

/** Reads ids one by one; a plant is `undefined` if there is none. */
async function* readEach(store: KvStore, ids: ReadonlySet<bigint>) {
  for (const id of ids) {
    const found = await withTimeout(store.read([id]), LIST_MS_MAX);
    yield [{ id, plant: found.get(id) }];
  }
}
