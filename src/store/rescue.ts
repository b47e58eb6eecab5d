import { basename, dirname, join } from "node:path";
import type { Clock } from "../clock.ts";
import { RESCUE_RETRY_MS } from "../limits.ts";
import { fileProblem } from "../messages.ts";
import { findStore, moveSidecars } from "./database_file.ts";
import { exportPages } from "./export_pages.ts";
import {
  isSameFile,
  resolveLinks,
  statOrUndefined,
  timeInName,
  writeAll,
} from "./files.ts";
import type { KvStore } from "./kv_store.ts";
import { publish, withPartialFile } from "./new_file.ts";
import type { OpenFiles } from "./open_files.ts";
import type { Reports } from "./reports.ts";

/** What follows the name of the database in the name of a file of its plants. */
const SAVED_INFIX = ".rescued-";
const SAVED_SUFFIX = ".jsonl";

/** The part of a store that a rescue uses; without files, it does nothing. */
export interface RescuedStore extends Pick<KvStore, "pages"> {
  readonly files: Pick<OpenFiles, "problem" | "removeOrphans"> | undefined;
}

type RescueReports = Pick<Reports, "plantsSaved" | "plantsNotSaved">;

/**
 * Saves the plants of a store whose files were deleted or replaced while it is
 * open: the process can still read all of them. It writes them as an export to
 * `PATH.rescued-TIME.jsonl`, complete when it has that name, and repeats that
 * until it succeeds.
 */
export class Rescue {
  readonly #store: RescuedStore;
  readonly #path: string;
  readonly #reports: RescueReports;
  readonly #clock: Clock;
  readonly #saved = Promise.withResolvers<void>();
  #isSaving = false;
  /** The earliest time of the next attempt. */
  #nextMs = -Infinity;

  /** @param path the database file of the store */
  constructor(
    store: RescuedStore,
    path: string,
    reports: RescueReports,
    clock: Clock,
  ) {
    this.#store = store;
    this.#path = path;
    this.#reports = reports;
    this.#clock = clock;
  }

  /**
   * Saves the plants if the health check has found a problem of the files. Call
   * it regularly.
   */
  check(): void {
    if (this.#store.files?.problem === undefined) return;
    if (!this.#isSaving && this.#clock.nowMs() >= this.#nextMs) this.#save();
  }

  /**
   * Waits until the plants are saved, if the files have a problem, and removes
   * the log of a replaced database. Call it before the store is closed, and
   * {@link check} regularly until it resolves: a store that cannot be saved
   * would be lost, so only a second signal or the supervisor bounds the wait.
   */
  async finish(): Promise<void> {
    this.check();
    if (this.#store.files?.problem === undefined) return;
    await this.#saved.promise;
    this.#store.files.removeOrphans();
  }

  async #save(): Promise<void> {
    this.#isSaving = true;
    const path = `${this.#path}${SAVED_INFIX}${timeInName()}${SAVED_SUFFIX}`;
    try {
      let plants = 0;
      let foreign = 0;
      await withPartialFile(path, async (partial) => {
        using file = await Deno.open(partial, { write: true });
        for await (const page of exportPages(this.#store.pages())) {
          await writeAll(file, page.text);
          plants += page.plants;
          foreign += page.foreign.length;
        }
        if (!publish(partial, path)) throw new Error("the file exists");
      });
      this.#nextMs = Infinity;
      this.#reports.plantsSaved(path, plants, foreign);
      this.#saved.resolve();
    } catch (error) {
      this.#nextMs = this.#clock.nowMs() + RESCUE_RETRY_MS;
      this.#reports.plantsNotSaved(path, fileProblem(error));
    } finally {
      this.#isSaving = false;
    }
  }
}

/**
 * Returns the files with the plants of a lost store, oldest first, if no store is
 * in its place: a kill may leave a database whose plants were in a deleted log.
 * @param path the database file of the store
 */
export function savedPlantsOf(path: string): readonly string[] {
  const prefix = basename(path) + SAVED_INFIX;
  try {
    if (statOrUndefined(path) !== undefined && findStore(path)) return [];
    return [...Deno.readDirSync(dirname(path))].map(({ name }) => name)
      .filter((name) => name.startsWith(prefix) && name.endsWith(SAVED_SUFFIX))
      .toSorted().map((name) => join(dirname(path), name));
  } catch {
    // Opening the store reports why it, or its directory, cannot be read.
    return [];
  }
}

/**
 * Renames the log of a lost store to `PATH.lost-TIME-wal` if the file to import
 * has its plants, so that a new store can be created. Not earlier: a database
 * that was moved is complete only with its log.
 * @param path the database file of the store
 * @param file the file to import
 */
export function releaseLog(path: string, file: string): void {
  try {
    const imported = statOrUndefined(file);
    const isSaved = savedPlantsOf(path).some((saved) =>
      isSameFile(imported, statOrUndefined(saved))
    );
    if (!isSaved) return;
    const real = resolveLinks(path);
    moveSidecars(real, `${real}.lost-${timeInName()}`);
  } catch {
    // Opening the store reports a log that remains.
  }
}
