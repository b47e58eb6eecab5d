import type { Clock } from "../clock.ts";
import { FileError, isDamaged, toFileError } from "../files/file_error.ts";
import { exists, removeIfPossible, sync } from "../files/file_system.ts";
import { createFile, PARTIAL_SUFFIX, syncDirectory } from "../files/publish.ts";
import { CHECK_MS, RESCUE_RETRY_MS } from "../limits.ts";
import { formatPages } from "../plant/lines.ts";
import { isDeleted, newSavedFile } from "./files/saved.ts";
import type { WatchedFiles } from "./files/watch.ts";
import type { KvStore } from "./kv_store.ts";

/** The part of a store that a rescue uses; without files, it does nothing. */
export interface RescuedStore extends Pick<KvStore, "pages"> {
  readonly files:
    | Pick<
      WatchedFiles,
      "path" | "real" | "loss" | "isCut" | "check" | "setAside"
    >
    | undefined;
}

/** The plants of a lost store in a file. */
interface SavedPlants {
  readonly path: string;
  readonly plants: number;
  /** Number of entries that are not plants of this service. */
  readonly foreign: number;
  /** Whether further plants could not be read. */
  readonly isDamaged: boolean;
  /** Why the directory could not be synced, if it could not. */
  readonly unsynced: string | undefined;
}

/** What a rescue reports. */
export interface RescueReports {
  plantsSaved(saved: SavedPlants): void;
  plantsNotSaved(path: string, problem: string): void;
}

/**
 * Saves the plants of a store whose files were deleted, replaced or cut while it
 * is open: unless they are damaged, the process can still read all of them. It
 * writes them as an export to a saved file, complete when it has that name, and
 * repeats that until it succeeds, and if that file is deleted.
 */
export class Rescue {
  readonly #store: RescuedStore;
  readonly #reports: RescueReports;
  readonly #clock: Clock;
  #isSaving = false;
  /**
   * The file that is written. It stays between two attempts: while it exists,
   * no service starts with a new store in place of the lost one.
   */
  #partial: string | undefined;
  /** The file with the plants. */
  #path: string | undefined;
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
      if (!isDeleted(this.#path)) return;
      this.#path = undefined;
    }
    if (this.#clock.nowMs() < this.#nextMs) return;
    this.#save(newSavedFile(files.path, files.real));
  }

  /**
   * Waits while the files have a problem and no plants are saved: files that
   * cannot be examined may be lost. Call it before the store is closed, and
   * {@link check} regularly until it resolves: a store that cannot be saved would
   * be lost, so only a second signal or the supervisor bounds the wait.
   */
  async finish(): Promise<void> {
    const { files } = this.#store;
    this.check();
    while (files?.check() !== undefined && this.#path === undefined) {
      await this.#clock.sleep(CHECK_MS);
    }
    // Not earlier: other instances would take it for moved, and so for complete.
    if (files?.isCut) files.setAside();
  }

  async #save(path: string): Promise<void> {
    this.#isSaving = true;
    try {
      const partial = path + PARTIAL_SUFFIX;
      createFile(partial);
      // Only now: at every moment one of them refuses a start.
      if (this.#partial !== undefined) removeIfPossible(this.#partial);
      this.#partial = partial;
      let plants = 0;
      let foreign = 0;
      let isStoreDamaged = this.#store.files?.isCut ?? false;
      try {
        for await (const page of formatPages(this.#store.pages())) {
          // It fails if the file is gone: another one would lack its start.
          const options = { append: true, create: false };
          await Deno.writeTextFile(partial, page.text, options);
          plants += page.plants;
          foreign += page.foreign.length;
        }
      } catch (error) {
        // A later attempt would not read more.
        if (!isDamaged(error)) throw error;
        isStoreDamaged = true;
      }
      // Without its final name, it counts as incomplete.
      const saved = isStoreDamaged ? partial : path;
      if (exists(path)) throw new FileError("exists");
      sync(partial);
      Deno.renameSync(partial, saved);
      const unsynced = syncDirectory(saved);
      if (!isStoreDamaged) this.#store.files?.setAside();
      this.#path = saved;
      this.#reports.plantsSaved({
        path: saved,
        plants,
        foreign,
        isDamaged: isStoreDamaged,
        unsynced,
      });
    } catch (error) {
      const { problem, message } = toFileError(error);
      if (problem === "full") this.#freeSpace();
      this.#nextMs = this.#clock.nowMs() + RESCUE_RETRY_MS;
      this.#reports.plantsNotSaved(path, message);
    } finally {
      this.#isSaving = false;
    }
  }

  #freeSpace(): void {
    try {
      if (this.#partial !== undefined) Deno.truncateSync(this.#partial);
    } catch {
      // It was deleted: the next attempt makes another one.
    }
  }
}
