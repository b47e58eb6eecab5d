import { basename, dirname, join } from "node:path";
import { SYSTEM_CLOCK } from "../clock.ts";
import { countOf, errorMessage } from "../messages.ts";
import { StoreError } from "../store_error.ts";
import { statOrUndefined } from "../store/files/file_system.ts";
import { IMPORTED, RESCUED } from "../store/rescue.ts";
import type { Store } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import { Import, openInput } from "./import.ts";

/**
 * Imports the plants of lost stores that were saved beside a store, and renames
 * their files, so that none is imported twice.
 * @param path of the store, as configured
 * @throws {StoreError} if the store fails, and then the file keeps its name
 */
export async function importRescued(
  store: Store,
  path: string,
  log: Log,
): Promise<void> {
  const prefix = basename(path) + RESCUED;
  for (const { name } of Deno.readDirSync(dirname(path))) {
    if (!name.startsWith(prefix)) continue;
    const file = join(dirname(path), name);
    if (name.endsWith(".partial")) {
      const why = "it is being written, or the service was killed";
      log.error("plants not saved", `${file} is incomplete: ${why}`);
    }
    if (!name.endsWith(".jsonl")) continue;
    try {
      const imported = path + IMPORTED + name.slice(prefix.length);
      await importFile(store, file, imported, log);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      // Another start has imported and renamed it.
      if (statOrUndefined(file) === undefined) continue;
      log.error("plants not imported", errorMessage(error));
    }
  }
}

async function importFile(
  store: Store,
  file: string,
  imported: string,
  log: Log,
): Promise<void> {
  const run = new Import(store, { print() {}, update() {} }, SYSTEM_CLOCK);
  await run.addInput(openInput(file), file);
  const { stored, replayed, conflict, failed, refused } = run.counts;
  if (failed > 0) throw run.storeError;
  Deno.renameSync(file, imported);
  log.warn(
    "plants imported",
    `imported ${plants(stored + replayed)} of a lost store from ${imported}`,
  );
  const rest = conflict + refused;
  if (rest === 0) return;
  log.error(
    "plants not imported",
    `${plants(rest)} in ${imported} not imported: the ids are taken by ` +
      "different plants; an import of the file names them",
  );
}

function plants(count: number): string {
  return countOf(count, "plant", "plants");
}
