import type { StoreSetting } from "../config/settings.ts";
import { printLine } from "../console/output.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { removePlant } from "../store/plants.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @param remove replaced by tests
 * @returns the exit status: 1 if an id has no plant
 * @throws {StoreError}
 */
export async function removePlants(
  location: StoreSetting,
  ids: readonly bigint[],
  remove: (store: KvStore, id: bigint) => Promise<boolean> = removePlant,
): Promise<number> {
  const selected = new Set(ids);
  const store = await openExistingStore(location, { onDelay: printLine });
  let removed = 0;
  try {
    for (const id of selected) {
      try {
        if (await remove(store, id)) removed++;
        else printLine(`id ${id}: no such plant`);
      } catch (error) {
        if (error instanceof StoreError && error.isOutcomeUnknown) {
          printLine(`id ${id}: the plant may have been removed`);
        }
        throw error;
      }
    }
  } finally {
    store.close();
    printLine(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}
