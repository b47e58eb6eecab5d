import { storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { COMMIT_MS_MAX } from "../limits.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { openExistingStore } from "../store/open.ts";
import { retryWhileLocked } from "../store/retry.ts";
import type { StoreLocation } from "../store/location.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant
 * @throws {OperatorError} if an id is invalid, and then no plant is removed, or
 * if the store fails, and then the plant in the message may have been removed
 */
export async function removePlants(
  location: StoreLocation,
  ids: readonly string[],
): Promise<number> {
  const selected = new Set(ids.map(readId));
  const store = await openExistingStore(location).catch((error) => {
    throw storeFailure("remove plants from", location, error);
  });
  let removed = 0;
  try {
    for (const id of selected) {
      const wasThere = await retryWhileLocked(
        COMMIT_MS_MAX,
        () => store.remove(id),
      ).catch((error) => {
        throw storeFailure(`remove the plant ${id} from`, location, error);
      });
      if (wasThere) removed++;
      else writeStderr(`id ${id}: no such plant`);
    }
  } finally {
    store.close();
    writeStderr(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}
