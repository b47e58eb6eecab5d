/** The plants of a lost store: rescued while the service runs, imported at a start. */
import { dirname } from "node:path";
import { SYSTEM_CLOCK } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { fileFailure } from "../console/failures.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { countOf } from "../messages.ts";
import { StoreError } from "../store_error.ts";
import { statOrUndefined, sync } from "../store/files/file_system.ts";
import type { KvStore } from "../store/kv_store.ts";
import { findRescued, importedNameOf, rescuePlants } from "../store/rescue.ts";
import { gapMessage } from "../store/listing.ts";
import type { Store } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import { Import, openInput } from "./import.ts";

/** Rescues the plants of a lost store, and logs how that ends. */
export async function rescue(
  store: KvStore,
  { store: location }: Config,
  log: Log,
): Promise<void> {
  if (location.kind !== "file") return;
  const { configured } = location;
  function failed({ message }: StoreError): void {
    const next = `fix this: the service retries every ${
      RESCUE_RETRY_MS / 1000
    } s`;
    log.error(
      "plants not rescued",
      `cannot rescue the plants beside ${configured}: ${message}: ${next}`,
    );
  }
  const { file, plants, gaps } = await rescuePlants(
    store,
    configured,
    SYSTEM_CLOCK,
    failed,
  );
  for (const gap of gaps) log.error("plants unreadable", gapMessage(gap));
  const rescued = gaps.length === 0
    ? `rescued all plants (${plants}) in ${file}: restart the service`
    : `rescued the plants that can be read (${plants}) in ${file}: restore a backup`;
  log.error("plants rescued", rescued);
}

/** Returns the rescued files beside a store, and names the incomplete ones. */
export function findRescuedFiles(path: string, log: Log): string[] {
  const { files, incomplete } = findRescued(path);
  for (const directory of incomplete) {
    const why = "it is being written, or the service was killed";
    log.error("rescued file incomplete", `${directory} is incomplete: ${why}`);
  }
  return files;
}

/**
 * Imports rescued files before the service listens, and renames them, so that none
 * is imported twice.
 * @throws {StoreError} if the store fails, and then the file keeps its name
 * @throws {OperatorError} if a file cannot be read or renamed
 */
export async function importRescued(
  store: Store,
  files: readonly string[],
  log: Log,
): Promise<void> {
  for (const file of files) {
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
  const run = new Import(store, SYSTEM_CLOCK);
  await run.addInput(openInput(file), file);
  const { stored, replayed, conflict, unreadable, failed, refused } =
    run.counts;
  if (failed > 0) throw run.storeError;
  const imported = importedNameOf(file);
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
  store.isNew = false;
  const rest = conflict + unreadable + refused;
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
