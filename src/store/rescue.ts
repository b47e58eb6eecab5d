import { basename, dirname, join } from "node:path";
import type { Clock } from "../clock.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { formatPages } from "../plant/lines.ts";
import { StoreError, toFileError } from "./errors.ts";
import { isSameFile, statOrUndefined, timeInName } from "./files/paths.ts";
import { publish, syncDirectory, withPartialFile } from "./files/publish.ts";
import type { WatchedFiles } from "./files/watch.ts";
import type { KvStore } from "./kv_store.ts";
import type { Reports } from "./reports.ts";

/** What follows the name of the database in the name of a file of its plants. */
const SAVED_INFIX = ".rescued-";
const SAVED_SUFFIX = ".jsonl";

/** What follows that name when its plants are in a store. */
const IMPORTED_SUFFIX = ".imported";

/** The part of a store that a rescue uses; without files, it does nothing. */
export interface RescuedStore extends Pick<KvStore, "pages"> {
  readonly files:
    | Pick<WatchedFiles, "path" | "loss" | "removeOrphans">
    | undefined;
}

/** What a rescue reports. */
type RescueReports = Pick<Reports, "plantsSaved" | "plantsNotSaved">;

/**
 * Saves the plants of a store whose files were deleted or replaced while it is
 * open: the process can still read all of them. It writes them as an export to
 * `PATH.rescued-TIME.jsonl`, complete when it has that name, and repeats that
 * until it succeeds, and if that file is deleted.
 */
export class Rescue {
  readonly #store: RescuedStore;
  readonly #reports: RescueReports;
  readonly #clock: Clock;
  #isSaving = false;
  /** The file with the plants. */
  #path: string | undefined;
  #saved = Promise.withResolvers<void>();
  /** The earliest time of the next attempt. */
  #nextMs = -Infinity;

  constructor(store: RescuedStore, reports: RescueReports, clock: Clock) {
    this.#store = store;
    this.#reports = reports;
    this.#clock = clock;
  }

  /** Saves the plants of a lost store. Call it regularly. */
  check(): void {
    const { files } = this.#store;
    if (files?.loss === undefined || this.#isSaving) return;
    if (this.#path !== undefined) {
      if (!isMissing(this.#path)) return;
      this.#path = undefined;
      this.#saved = Promise.withResolvers();
    }
    if (this.#clock.nowMs() >= this.#nextMs) this.#save(files.path);
  }

  /**
   * Waits until the plants of a lost store are saved, and removes the log of a
   * replaced database. Call it before the store is closed, and {@link check}
   * regularly until it resolves: a store that cannot be saved would be lost, so
   * only a second signal or the supervisor bounds the wait.
   */
  async finish(): Promise<void> {
    const { files } = this.#store;
    if (files?.loss === undefined) return;
    this.check();
    await this.#saved.promise;
    files.removeOrphans();
  }

  /** @param database the database file of the store */
  async #save(database: string): Promise<void> {
    this.#isSaving = true;
    const path = `${database}${SAVED_INFIX}${timeInName()}${SAVED_SUFFIX}`;
    try {
      let plants = 0;
      let foreign = 0;
      const unsynced = await withPartialFile(path, async (partial) => {
        for await (const page of formatPages(this.#store.pages())) {
          await Deno.writeTextFile(partial, page.text, { append: true });
          plants += page.plants;
          foreign += page.foreign.length;
        }
        return publish(partial, path);
      });
      this.#path = path;
      this.#reports.plantsSaved(path, plants, foreign, unsynced);
      this.#saved.resolve();
    } catch (error) {
      this.#nextMs = this.#clock.nowMs() + RESCUE_RETRY_MS;
      this.#reports.plantsNotSaved(path, toFileError(error).message);
    } finally {
      this.#isSaving = false;
    }
  }
}

/** Returns whether saved plants were deleted, and not imported. */
function isMissing(saved: string): boolean {
  try {
    return [saved, saved + IMPORTED_SUFFIX]
      .every((path) => statOrUndefined(path) === undefined);
  } catch {
    // It cannot be examined now, which is no reason to write another one.
    return false;
  }
}

/**
 * Returns the files of saved plants beside a store, oldest first: their plants
 * may not be in the store.
 * @param path the database file of the store
 * @throws {StoreError} if the directory cannot be listed
 */
export function savedFilesOf(path: string): readonly string[] {
  const prefix = basename(path) + SAVED_INFIX;
  const directory = dirname(path);
  if (!statOrUndefined(directory)?.isDirectory) return [];
  try {
    return [...Deno.readDirSync(directory)].map(({ name }) => name)
      .filter((name) => name.startsWith(prefix) && name.endsWith(SAVED_SUFFIX))
      .toSorted().map((name) => join(directory, name));
  } catch (error) {
    const { problem, message } = toFileError(error);
    throw new StoreError(problem, `cannot list ${directory}: ${message}`);
  }
}

/**
 * Returns the file of saved plants beside a store that another path leads to.
 * @throws the error of Deno if the files cannot be examined
 */
export function findSavedFile(path: string, other: string): string | undefined {
  const file = statOrUndefined(other);
  return file && savedFilesOf(path)
    .find((saved) => isSameFile(file, statOrUndefined(saved)));
}

/**
 * Renames a file of saved plants that are all in the store now.
 * @returns its new path
 * @throws the error of Deno if it cannot be renamed
 */
export function markImported(saved: string): string {
  const path = saved + IMPORTED_SUFFIX;
  Deno.renameSync(saved, path);
  // A power cut may undo it, and the import can be repeated.
  syncDirectory(path);
  return path;
}
