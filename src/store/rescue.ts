import type { Clock } from "../clock.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { formatNewPlant } from "../plant/plant.ts";
import type { Log } from "../telemetry/log.ts";
import { statOrUndefined } from "./files/file_system.ts";
import { makeFile } from "./files/publish.ts";
import type { KvStore } from "./kv_store.ts";
import { listPlants } from "./listing.ts";
import {
  StoreError,
  type StoreErrorKind,
  toStoreError,
} from "../store_error.ts";

/** What follows the name of a store in the name of a file with its plants. */
export const RESCUED = ".rescued-";
export const IMPORTED = ".imported-";

/**
 * Saves the plants of a store whose files were deleted, moved or replaced, since
 * the process can still read them: an export in a file beside the store, complete
 * when it has its name. Tries until that succeeds, or until damage is found.
 */
export async function savePlants(
  store: KvStore,
  path: string,
  log: Log,
  clock: Clock,
): Promise<void> {
  let reported: StoreErrorKind | undefined;
  for (;;) {
    const time = new Date().toISOString().replaceAll(":", "");
    const file = `${path}${RESCUED}${time}.jsonl`;
    let plants = 0;
    try {
      await makeFile(file, async (partial) => {
        for await (const page of listPlants(store)) {
          const listed = page.filter((entry) => typeof entry !== "string");
          const lines = listed.map((plant) => `${formatNewPlant(plant)}\n`);
          await Deno.writeTextFile(partial, lines.join(""), { append: true });
          plants += listed.length;
        }
      }).catch((error) => {
        // Complete, but its directory cannot be synced: no further file.
        const isMade = error instanceof StoreError && statOrUndefined(file);
        if (!isMade) throw error;
      });
      store.renameLog(`.lost-${time}`);
      const saved = `saved all plants (${plants}) in ${file}`;
      log.error("plants saved", `${saved}: restart the service`);
      return;
    } catch (thrown) {
      const { kind, message, isDamage } = toStoreError(thrown);
      const next = isDamage
        ? "restore a backup"
        : `fix this, it is tried again every ${RESCUE_RETRY_MS / 1000} s`;
      const problem = `cannot save the plants: ${message}: ${next}`;
      if (kind !== reported) log.error("plants not saved", problem);
      if (isDamage) return;
      reported = kind;
      await clock.sleep(RESCUE_RETRY_MS);
    }
  }
}
