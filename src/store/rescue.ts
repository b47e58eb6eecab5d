/** Rescued files: they have the plants of a store that was lost while it was open. */
import { basename, dirname, join } from "node:path";
import type { Clock } from "../clock.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { formatNewPlant } from "../plant/plant.ts";
import { StoreError, toStoreError } from "../store_error.ts";
import { statOrUndefined } from "./files/file_system.ts";
import { makeFile, PARTIAL } from "./files/publish.ts";
import type { KvStore } from "./kv_store.ts";
import { type Gap, salvagePlants } from "./listing.ts";

/** What follows the path of a store in the path of a rescued file, and a time. */
const RESCUED = ".rescued-";
const SUFFIX = ".jsonl";

/**
 * Returns the rescued files beside a store, and the directories of incomplete ones.
 * @param path of the store, as configured
 * @throws the error of Deno if the directory cannot be read
 */
export function findRescued(path: string) {
  const directory = dirname(path);
  const found = Array.from(Deno.readDirSync(directory), ({ name }) => name)
    .filter((name) => name.startsWith(basename(path) + RESCUED))
    .sort().map((name) => join(directory, name));
  return {
    files: found.filter((name) => name.endsWith(SUFFIX)),
    incomplete: found.filter((name) => name.endsWith(PARTIAL)),
  };
}

/** Returns the name of a rescued file after its import. */
export function importedNameOf(file: string): string {
  const at = file.lastIndexOf(RESCUED);
  return `${file.slice(0, at)}.imported-${file.slice(at + RESCUED.length)}`;
}

/** A new rescued file. */
export interface Rescued {
  readonly file: string;
  readonly plants: number;
  /** Places that cannot be read, of a damaged store. */
  readonly gaps: readonly Gap[];
}

/**
 * Rescues the plants of a store whose files were deleted, moved or replaced, since
 * the process can still read them: an export in a file beside the store, complete
 * when it has its name. Tries until that succeeds.
 * @param path of the store, as configured
 * @param failed called when an attempt fails
 */
export async function rescuePlants(
  store: KvStore,
  path: string,
  clock: Clock,
  failed: (error: StoreError) => void,
): Promise<Rescued> {
  for (;;) {
    // Another instance may do so in the same millisecond.
    const time = `${new Date().toISOString().replaceAll(":", "")}-${Deno.pid}`;
    const lost = `.lost-${time}`;
    try {
      store.renameLog(lost, false);
      const rescued = await exportTo(
        `${path}${RESCUED}${time}${SUFFIX}`,
        store,
      );
      // Beside no database, the log of a damaged store refuses a start.
      if (rescued.gaps.length === 0) renameLogOfRescued(store, lost);
      return rescued;
    } catch (thrown) {
      failed(toStoreError(thrown));
      await clock.sleep(RESCUE_RETRY_MS);
    }
  }
}

/** Exports all plants that can be read to a new file. */
async function exportTo(file: string, store: KvStore): Promise<Rescued> {
  let plants = 0;
  const gaps: Gap[] = [];
  try {
    await makeFile(file, async (partial) => {
      for await (const part of salvagePlants(store)) {
        if ("upTo" in part) {
          gaps.push(part);
          continue;
        }
        let lines = "";
        for (const { id, plant } of part) {
          if (plant === null) continue;
          lines += `${formatNewPlant({ id, plant })}\n`;
          plants++;
        }
        await Deno.writeTextFile(partial, lines, { append: true });
      }
    });
  } catch (error) {
    // Complete, but its directory cannot be synced: no further file.
    const isMade = error instanceof StoreError && statOrUndefined(file);
    if (!isMade) throw error;
  }
  return { file, plants, gaps };
}

function renameLogOfRescued(store: KvStore, name: string): void {
  try {
    store.renameLog(name, true);
  } catch {
    // A log without a database makes the next start fail, and name it.
  }
}
