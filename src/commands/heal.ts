import { basename, dirname, join } from "node:path";
import { SYSTEM_CLOCK } from "../clock.ts";
import { errorMessage } from "../messages.ts";
import { statOrUndefined } from "../store/files/file_system.ts";
import { IMPORTED, RESCUED } from "../store/rescue.ts";
import type { Store } from "../store/store.ts";
import { StoreError } from "../store_error.ts";
import type { Log } from "../telemetry/log.ts";
import { Import, openInput } from "./import.ts";

/**
 * Imports the plants of lost stores that were saved beside a store, and renames
 * their files. One with a line that cannot be imported stays for the next start.
 * @throws {StoreError} if the store fails
 */
export async function importRescued(
  store: Store,
  path: string,
  log: Log,
): Promise<void> {
  for (const { name } of Deno.readDirSync(dirname(path))) {
    const prefix = basename(path) + RESCUED;
    if (!name.startsWith(prefix) || !name.endsWith(".jsonl")) continue;
    const file = join(dirname(path), name);
    const run = new Import(store, { print() {}, update() {} }, SYSTEM_CLOCK);
    try {
      await run.addInput(openInput(file), file);
      if (run.failed > 0) throw run.storeError;
      if (!run.isComplete) throw new Error(run.summary);
      Deno.renameSync(file, path + IMPORTED + name.slice(prefix.length));
      const imported = `imported ${run.settled} plants`;
      log.warn("plants imported", `${imported} that were saved in ${file}`);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      // Another start has imported and renamed it.
      if (statOrUndefined(file) === undefined) continue;
      const problem = `cannot import all plants that were saved in ${file}`;
      log.error("plants not imported", `${problem}: ${errorMessage(error)}`);
    }
  }
}
