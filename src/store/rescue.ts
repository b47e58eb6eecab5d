import { basename, dirname, join } from "node:path";
import type { Clock } from "../clock.ts";
import { statOrUndefined, timeInName } from "../files/file_system.ts";
import { makeFile } from "../files/publish.ts";
import { CHECK_MS, RESCUE_RETRY_MS } from "../limits.ts";
import type { WatchedFiles } from "./files/watch.ts";
import { type ListedStore, listLines } from "./listing.ts";
import { isDamaged, type StoreError, toStoreError } from "./store_error.ts";

/** What follows the name of a store in the name of a file with its plants. */
const RESCUED = ".rescued-";
const IMPORTED = ".imported-";

/** The part of a store that a rescue uses; without files, it does nothing. */
export interface RescuedStore extends ListedStore {
  readonly files:
    | Pick<WatchedFiles, "path" | "loss" | "check" | "renameLog">
    | undefined;
}

/** What a rescue has left beside a store. */
export interface Rescued {
  /** A file, or the directory of a file that is not complete. */
  readonly path: string;
  /** The file with the plants, if there is one. */
  readonly file: string | undefined;
  /** The new name of the path when its plants are in a store. */
  readonly imported: string;
}

/** What a rescue reports. */
export interface RescueReports {
  /**
   * All plants are in a file.
   * @param foreign entries that are not plants of this service, and not saved
   */
  plantsSaved(rescued: Rescued, plants: number, foreign: number): void;
  /** The next attempt follows after {@link RESCUE_RETRY_MS}. */
  plantsNotSaved(error: StoreError): void;
  /** The plants cannot be read; there is no further attempt. */
  plantsLost(error: StoreError): void;
}

/**
 * Saves the plants of a store whose files were deleted, moved or replaced while
 * it is open, since the process can still read all of them: an export in a file
 * beside the configured path, complete when it has its name. A store that was
 * cut has lost its content.
 */
export class Rescue {
  readonly #store: RescuedStore;
  readonly #reports: RescueReports;
  readonly #clock: Clock;
  /** It has ended when the plants are saved or lost. */
  #state: "waiting" | "saving" | "ended" = "waiting";
  /** The earliest time of the next attempt. */
  #nextMs = -Infinity;

  constructor(store: RescuedStore, reports: RescueReports, clock: Clock) {
    this.#store = store;
    this.#reports = reports;
    this.#clock = clock;
  }

  /** Whether the store is lost, and its plants are not saved yet. */
  get isPending(): boolean {
    const { files } = this.#store;
    return files?.loss?.problem === "lost" && this.#state !== "ended";
  }

  /** Saves the plants of a lost store. Call it every {@link CHECK_MS}. */
  check(): void {
    const isDue = this.isPending && this.#state === "waiting" &&
      this.#clock.nowMs() >= this.#nextMs;
    if (isDue) this.#save();
  }

  /**
   * Waits until the plants of a lost store are saved. Call it before the store is
   * closed, and {@link check} regularly until it resolves: only a second signal
   * or the supervisor bounds the wait.
   */
  async finish(): Promise<void> {
    this.#store.files?.check();
    while (this.isPending) await this.#clock.sleep(CHECK_MS);
  }

  async #save(): Promise<void> {
    const { files } = this.#store;
    if (files === undefined) return;
    this.#state = "saving";
    const name = `${timeInName()}.jsonl`;
    const path = files.path + RESCUED + name;
    let plants = 0;
    let foreign = 0;
    try {
      await makeFile(path, async (partial) => {
        for await (const page of listLines(this.#store)) {
          await Deno.writeTextFile(partial, page.text, { append: true });
          plants += page.plants;
          foreign += page.foreign.length;
        }
      });
    } catch (thrown) {
      const error = toStoreError(thrown);
      if (isDamaged(error)) {
        this.#state = "ended";
        this.#reports.plantsLost(error);
        return;
      }
      // A file that is there, but not synced, must not be written every time.
      if (error.problem !== "not synced") {
        this.#state = "waiting";
        this.#nextMs = this.#clock.nowMs() + RESCUE_RETRY_MS;
        this.#reports.plantsNotSaved(error);
        return;
      }
    }
    files.renameLog();
    this.#state = "ended";
    const imported = files.path + IMPORTED + name;
    const rescued = { path, file: path, imported };
    this.#reports.plantsSaved(rescued, plants, foreign);
  }
}

/**
 * Returns the oldest file with plants of a store that was lost at a path. One
 * that is still written, or that a kill has left incomplete, comes last.
 * @throws the error of Deno if the files cannot be listed
 */
export function findRescued(path: string): Rescued | undefined {
  const prefix = basename(path) + RESCUED;
  const directory = dirname(path);
  if (!statOrUndefined(directory)?.isDirectory) return undefined;
  const entries = [...Deno.readDirSync(directory)]
    .filter(({ name }) => name.startsWith(prefix))
    .toSorted((a, b) => a.name < b.name ? -1 : 1);
  const entry = entries.find(({ isDirectory }) => !isDirectory) ?? entries[0];
  if (entry === undefined) return undefined;
  const { name, isDirectory } = entry;
  const found = join(directory, name);
  return {
    path: found,
    file: isDirectory ? onlyFileIn(found) : found,
    imported: path + IMPORTED + name.slice(prefix.length),
  };
}

function onlyFileIn(directory: string): string | undefined {
  // The service that writes it may complete it now.
  if (statOrUndefined(directory) === undefined) return undefined;
  const [file] = [...Deno.readDirSync(directory)];
  return file && join(directory, file.name);
}
