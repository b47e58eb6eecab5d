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
 * @throws {StoreError}
 */
export async function removePlants(
  location: StoreLocation,
  ids: readonly bigint[],
): Promise<number> {
  const selected = new Set(ids);
  const store = await openExistingStore(location);
  let removed = 0;
  try {
    for (const id of selected) {
      const removing = withTimeout(store.remove(id), COMMIT_MS_MAX);
      removing.catch(({ kind, isTransient }) => {
        if (kind === "locked" || !isTransient) return;
        printLine(`id ${id}: the plant may have been removed`);
      });
      if (await removing) removed++;
      else printLine(`id ${id}: no such plant`);
    }
  } finally {
    store.close();
    printLine(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}
