/** What the service does when the files of its store were deleted, moved or replaced. */
import { setTimeout as sleep } from "node:timers/promises";
import { basename, dirname, join } from "node:path";
import { formatNewPlant } from "../plant/plant.ts";
import { lstatOrUndefined } from "../store/files/inspect.ts";
import type { KvStore } from "../store/kv_store.ts";
import type { PlantEntry } from "../store/plants.ts";
import { type Damage, readAll } from "../store/read_all.ts";
import type { Log } from "../telemetry/log.ts";
import { countOf, messageWithoutPath } from "../text.ts";

/** Pause before the plants are saved again after a failure, such as a full disk. */
const SAVE_RETRY_MS = 60_000;

/** Suffix of a file that is being written, or that a killed service has left. */
const PARTIAL_SUFFIX = ".partial";

/** Plants that were saved. */
interface Saved {
  readonly file: string;
  readonly plants: number;
  /** Stored values that are no plants of this service. */
  readonly skipped: number;
  readonly damage: Damage | undefined;
}

/** How to save a lost store. */
export interface SaveOptions {
  readonly log: Log;
  /** Resolves when the service stops. */
  readonly stop: Promise<unknown>;
  /** Replaced by tests. */
  readonly retryMs?: number;
}

/**
 * Saves all plants of a lost store, which this process still has open, and logs where.
 * After a failure it tries again, for the last time when the service stops.
 *
 * Every acknowledged plant is saved: once a store was found lost, no commit to it is
 * acknowledged, even if it was running. A page is read when the one before it is
 * written, so any number of plants needs little memory.
 * @param path of the database
 */
export async function saveLostStore(
  store: KvStore,
  path: string,
  { log, stop, retryMs = SAVE_RETRY_MS }: SaveOptions,
): Promise<void> {
  let isStopping = false;
  const stopping = stop.then(() => isStopping = true);
  for (let isFirst = true;; isFirst = false) {
    const isLast = isStopping;
    const directory = directoryFor(path);
    try {
      logSaved(log, path, await save(store, join(directory, basename(path))));
      return;
    } catch (error) {
      const advice = isLast
        ? "the service stops without them"
        : "fix this, but do not stop the service, which tries again";
      const why = messageWithoutPath(error);
      const problem =
        `cannot save the plants of ${path} in ${directory}: ${why}`;
      if (isFirst || isLast) {
        log.error("store not saved", `${problem}: ${advice}`);
      }
      if (isLast) return;
      await Promise.race([sleep(retryMs), stopping]);
    }
  }
}

function logSaved(
  log: Log,
  path: string,
  { file, plants, skipped, damage }: Saved,
): void {
  const missing: string[] = [];
  if (skipped > 0) {
    missing.push(`${countOf(skipped, "value is", "values are")} no plant`);
  }
  if (damage !== undefined) {
    const { kind, message } = damage.error;
    missing.push(`${damage.ids} cannot be read (${kind}): ${message}`);
  }
  const but = missing.map((it) => `, but ${it}`).join("");
  log.error(
    "store saved",
    `saved ${
      countOf(plants, "plant", "plants")
    } of ${path} in ${file}${but}: ` +
      "stop the service, put the files of the store back or set up a new one, " +
      `and run plant-store import ${file}, which brings all of them back`,
    { file, plants },
  );
}

/** Returns the directory of a file, or the nearest one above that exists. */
function directoryFor(path: string): string {
  const directory = dirname(path);
  const isThere = lstatOrUndefined(directory)?.isDirectory;
  return isThere || directory === path ? directory : directoryFor(directory);
}

/** Saves all plants in a new file, whose name begins with a prefix. */
async function save(store: KvStore, prefix: string): Promise<Saved> {
  for (;;) {
    // Such as 2026-11-28-142003.
    const time = new Date().toISOString().slice(0, 19)
      .replace("T", "-").replaceAll(":", "");
    const file = `${prefix}.saved-${time}.jsonl`;
    try {
      return await saveIn(store, file);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      // Another process saves the same store in the same second.
      await sleep(1_000);
    }
  }
}

/** Saves all plants in a new file, which has its name when it is complete. */
async function saveIn(store: KvStore, file: string): Promise<Saved> {
  const partial = file + PARTIAL_SUFFIX;
  using output = await Deno.open(partial, {
    write: true,
    createNew: true,
    mode: 0o600,
  });
  let plants = 0;
  let skipped = 0;

  async function writePage(page: readonly PlantEntry[]): Promise<void> {
    let lines = "";
    for (const { id, plant } of page) {
      if (plant === null) skipped++;
      else {
        lines += `${formatNewPlant({ id, plant })}\n`;
        plants++;
      }
    }
    await writeAll(output, lines);
  }

  try {
    const damage = await readAll(store, writePage);
    await output.sync();
    if (lstatOrUndefined(file) !== undefined) {
      throw new Deno.errors.AlreadyExists();
    }
    await Deno.rename(partial, file);
    await syncDirectory(dirname(file));
    return { file, plants, skipped, damage };
  } catch (error) {
    await Deno.remove(partial).catch(() => {});
    throw error;
  }
}

async function writeAll(output: Deno.FsFile, text: string): Promise<void> {
  let bytes = new TextEncoder().encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(await output.write(bytes));
}

/** Puts the name of a file in a directory on disk. */
async function syncDirectory(path: string): Promise<void> {
  using directory = await Deno.open(path);
  await directory.sync();
}
