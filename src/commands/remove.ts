import { printLine } from "../console/output.ts";
import { EXIT_FAILURE } from "../operator_error.ts";
import { openExistingStore, type StoreLocation } from "../store/open.ts";
import { changePlant } from "../store/plants.ts";
import { StoreError } from "../store/store_error.ts";
import { countOf } from "../text.ts";

/** What tests replace. */
interface RemoveOptions {
  readonly change?: typeof changePlant;
}

/**
 * Removes plants from the store, while a service uses it or not.
 * @param ids one or more ids
 * @returns the exit status: 1 if an id has no plant
 * @throws {StoreError}
 */
export async function removePlants(
  location: StoreLocation,
  ids: readonly bigint[],
  { change = changePlant }: RemoveOptions = {},
): Promise<number> {
  const selected = new Set(ids);
  const store = await openExistingStore(location);
  let removed = 0;
  try {
    for (const id of selected) {
      try {
        const found = await change(store, id, undefined);
        if (found === "changed") removed++;
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
