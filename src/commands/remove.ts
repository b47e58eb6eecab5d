import { storeFailure } from "../console/failures.ts";
import { readId } from "../console/operands.ts";
import { COMMIT_MS_MAX } from "../limits.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { openExistingStore } from "../store/open.ts";
import { retryWhileLocked } from "../store/retry.ts";
import type { StoreLocation } from "../store/location.ts";
import { toStoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant, or one that cannot be read
 * @throws {OperatorError} if an id is invalid, and then no plant is removed, or
 * if the store fails
 */
export async function removePlants(
  store: StoreLocation,
  ids: readonly string[],
): Promise<number> {
  const selected = new Set(ids.map(readId));
  const open = await openExistingStore(store).catch((error) => {
    throw storeFailure("remove plants from", store, error);
  });
  let removed = 0;
  try {
    for (const id of selected) {
      try {
        const wasThere = await retryWhileLocked(
          COMMIT_MS_MAX,
          () => open.remove(id),
        );
        if (wasThere) removed++;
        else writeStderr(`id ${id}: no such plant`);
      } catch (thrown) {
        const { kind, message, isTransient } = toStoreError(thrown);
        // Corruption concerns the whole store: no write may follow.
        if (kind !== "newer format") {
          if (isTransient && kind !== "locked") {
            writeStderr(`id ${id}: the plant may have been removed`);
          }
          throw storeFailure(`remove the plant ${id} from`, store, thrown);
        }
        writeStderr(`id ${id}: cannot be read: ${message}`);
      }
    }
  } finally {
    open.close();
    writeStderr(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}
