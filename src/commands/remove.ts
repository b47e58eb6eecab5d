import type { StoreSetting } from "../config/settings.ts";
import { printLine } from "../console/output.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openExistingStore } from "../store/open.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";

/** The part of a store that the command uses. */
type RemovableStore = Pick<KvStore, "remove" | "close">;

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant
 * @throws {StoreError}
 */
export async function removePlants(
  location: StoreSetting,
  ids: readonly bigint[],
  open: (location: StoreSetting) => Promise<RemovableStore> = openExistingStore,
): Promise<number> {
  const selected = new Set(ids);
  const store = await open(location);
  let removed = 0;
  try {
    for (const id of selected) {
      if (await removeOne(store, id)) removed++;
      else printLine(`id ${id}: no such plant`);
    }
  } finally {
    store.close();
    printLine(`${countOf(removed, "plant", "plants")} removed`);
  }
  return removed === selected.size ? 0 : EXIT_FAILURE;
}

async function removeOne(
  store: RemovableStore,
  id: bigint,
): Promise<boolean> {
  try {
    return await store.remove(id);
  } catch (error) {
    if (error instanceof StoreError && error.isOutcomeUnknown) {
      printLine(`id ${id}: the plant may have been removed`);
    }
    throw error;
  }
}
