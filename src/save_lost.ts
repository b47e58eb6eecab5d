/** What the service does when the files of its store were deleted, moved or replaced. */
import { setTimeout as sleep } from "node:timers/promises";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { formatNewPlant } from "./plant/plant.ts";
import type { KvStore } from "./store/kv_store.ts";
import type { PlantEntry } from "./store/plants.ts";
import { type Damage, readAll } from "./store/read_all.ts";
import { toStoreError } from "./store/store_error.ts";
import type { Log } from "./telemetry/log.ts";
import { countOf } from "./text.ts";

/** Pause before the plants are saved again after a failure, such as a full disk. */
const SAVE_RETRY_MS = 60_000;

/** Plants that were saved. */
interface Saved {
  readonly plants: number;
  /** Stored values that are no plants of this service. */
  readonly skipped: number;
  readonly damage: Damage | undefined;
}

/** How to save a lost store. */
interface SaveOptions {
  readonly log: Log;
  /** Waits before the next attempt. */
  readonly pause?: () => Promise<void>;
}

/**
 * Saves all plants of a lost store, which this process still has open, and logs where.
 * Tries again until it succeeds: a stop waits for it, and only a second signal, or a
 * kill, gives the plants up.
 *
 * Every acknowledged plant is saved: once a store was found lost, no commit to it is
 * acknowledged, even if it was running.
 * @param path of the database
 */
export async function saveLostStore(
  store: KvStore,
  path: string,
  { log, pause = () => sleep(SAVE_RETRY_MS) }: SaveOptions,
): Promise<void> {
  for (;;) {
    const directory = nearestDirectory(path);
    // Such as 2026-11-28-142003-417: two services on one store need two names.
    const time = new Date().toISOString().replace(/[T.]/g, "-")
      .replace(/[:Z]/g, "");
    const file = join(directory, `${basename(path)}.saved-${time}.jsonl`);
    try {
      logSaved(log, path, file, await save(store, file));
      return;
    } catch (error) {
      const { kind, message } = toStoreError(error);
      log.error(
        "store not saved",
        `cannot save the plants of ${path} in ${directory} (${kind}): ` +
          `${message}: correct this, and do not kill the service: only it ` +
          "has them, and it tries again every minute",
      );
      await pause();
    }
  }
}

function logSaved(
  log: Log,
  path: string,
  file: string,
  { plants, skipped, damage }: Saved,
): void {
  let gaps = "";
  if (skipped > 0) {
    gaps += `, but ${countOf(skipped, "value is", "values are")} no plant`;
  }
  if (damage !== undefined) {
    const { kind, message } = damage.error;
    gaps += `, but ${damage.ids} cannot be read (${kind}): ${message}`;
  }
  const count = countOf(plants, "plant", "plants");
  // A disk that was unmounted leaves its directory, and the file is below it.
  log.error(
    "store saved",
    `saved ${count} of ${path} in ${file}${gaps}: put nothing back, and mount ` +
      "nothing over that file; the service may be stopped now; the command " +
      `import --kv NEW --kv-create yes ${file} makes a new store of the plants`,
    { file, plants },
  );
}

/** Returns the name of a file beside a store that has plants of a lost one, if any. */
export function findSaved(path: string): string | undefined {
  const prefix = `${basename(path)}.saved-`;
  try {
    return readdirSync(dirname(path)).find((name) => name.startsWith(prefix));
  } catch {
    // A directory may be writable and not readable.
    return undefined;
  }
}

/** Returns the directory of a file, or the nearest one above that exists. */
function nearestDirectory(path: string): string {
  const directory = dirname(path);
  try {
    if (Deno.statSync(directory).isDirectory) return directory;
  } catch {
    // It is gone, or its disk is.
  }
  return directory === path ? directory : nearestDirectory(directory);
}

/**
 * Saves all plants in a new file, which has its name when it is complete. A page is
 * read when the one before it is written, so any number of plants needs little memory.
 */
async function save(store: KvStore, file: string): Promise<Saved> {
  // A service that is killed leaves it.
  const partial = `${file}.partial`;
  using output = await Deno.open(partial, {
    write: true,
    createNew: true,
    mode: 0o600,
  });
  let plants = 0;
  let skipped = 0;

  async function writePage(page: readonly PlantEntry[]): Promise<void> {
    const lines = page.flatMap(({ id, plant }) =>
      plant === null ? [] : `${formatNewPlant({ id, plant })}\n`
    );
    plants += lines.length;
    skipped += page.length - lines.length;
    let bytes = new TextEncoder().encode(lines.join(""));
    while (bytes.length > 0) bytes = bytes.subarray(await output.write(bytes));
  }

  try {
    const damage = await readAll(store, writePage);
    await output.sync();
    await Deno.rename(partial, file);
    // The name is on disk only with its directory.
    using directory = await Deno.open(dirname(file));
    await directory.sync();
    return { plants, skipped, damage };
  } catch (error) {
    await Deno.remove(partial).catch(() => {});
    throw error;
  }
}
