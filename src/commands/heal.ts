import { basename, dirname, join } from "node:path";
import { SYSTEM_CLOCK } from "../clock.ts";
import { fileFailure } from "../console/failures.ts";
import { countOf } from "../messages.ts";
import { StoreError } from "../store_error.ts";
import { statOrUndefined, sync } from "../store/files/file_system.ts";
import { IMPORTED, RESCUED } from "../store/rescue.ts";
import type { Store } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import { Import, openInput } from "./import.ts";

/**
 * Returns the files beside a store with the plants of lost ones, also the
 * incomplete ones.
 * @param path of the store, as configured
 * @throws the error of Deno if the directory cannot be read
 */
export function findRescued(path: string): string[] {
  const names = Array.from(Deno.readDirSync(dirname(path)), ({ name }) => name);
  return names.filter((name) => name.startsWith(basename(path) + RESCUED))
    .sort().map((name) => join(dirname(path), name));
}

/**
 * Imports such files, and renames them, so that none is imported twice.
 * @throws {StoreError} if the store fails, and then the file keeps its name
 * @throws {OperatorError} if a file cannot be read or renamed
 */
export async function importRescued(
  store: Store,
  files: readonly string[],
  log: Log,
): Promise<void> {
  for (const file of files) {
    if (file.endsWith(".partial")) {
      const why = "it is being written, or the service was killed";
      log.error("rescued file incomplete", `${file} is incomplete: ${why}`);
    }
    if (!file.endsWith(".jsonl")) continue;
    try {
      await importFile(store, file, log);
    } catch (error) {
      // Unless another start has imported and renamed it.
      const isThere = statOrUndefined(file) !== undefined;
      if (error instanceof StoreError || isThere) throw error;
    }
  }
}

async function importFile(
  store: Store,
  file: string,
  log: Log,
): Promise<void> {
  const run = new Import(store, { print() {}, update() {} }, SYSTEM_CLOCK);
  await run.addInput(openInput(file), file);
  const { stored, replayed, conflict, failed, refused } = run.counts;
  if (failed > 0) throw run.storeError;
  const at = file.lastIndexOf(RESCUED);
  const imported = file.slice(0, at) + IMPORTED +
    file.slice(at + RESCUED.length);
  try {
    Deno.renameSync(file, imported);
    sync(dirname(file));
  } catch (error) {
    throw fileFailure("rename", file, error);
  }
  log.warn(
    "plants imported",
    `imported ${plants(stored + replayed)} of a lost store from ${imported}`,
  );
  const rest = conflict + refused;
  if (rest === 0) return;
  log.error(
    "plants not imported",
    `${plants(rest)} in ${imported} not imported: the ids are taken by ` +
      "different plants, or lines are refused; an import of the file says why",
  );
}

function plants(count: number): string {
  return countOf(count, "plant", "plants");
}
