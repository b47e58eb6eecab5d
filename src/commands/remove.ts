import { orStoreFailure } from "../console/failures.ts";
import { printLine } from "../console/output.ts";
import { COMMIT_MS_MAX } from "../limits.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import type { StoreLocation } from "../store/location.ts";
import { openExistingStore } from "../store/open.ts";
import { withTimeout } from "../store/retry.ts";
import { countOf } from "../text.ts";

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant
 * @throws {OperatorError} if the store fails
 */
export async function removePlants(
  location: StoreLocation,
  ids: readonly bigint[],
): Promise<number> {
  const selected = new Set(ids);
  const store = await orStoreFailure(
    "remove plants from",
    location,
    openExistingStore(location),
  );
  let removed = 0;
  try {
    for (const id of selected) {
      const wasThere = await orStoreFailure(
        `remove the plant ${id} from`,
        location,
        withTimeout(store.remove(id), COMMIT_MS_MAX).catch((error) => {
          if (error.kind !== "locked") {
            printLine(`id ${id}: the plant may have been removed`);
          }
          throw error;
        }),
      );
      if (wasThere) removed++;
      else printLine(`id ${id}: no such plant`);
    }
  } finally {
    store.close();
    printLine(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}
