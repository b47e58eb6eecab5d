import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { CommitResult, CommitStore } from "./committer.ts";
import {
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_REMOTE,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_REMOTE,
  READ_KEYS_MAX,
  STORE_OPEN_MS_MAX,
} from "./limits.ts";
import type { NewPlant, Plant } from "./plant.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";

/** Where plants are kept: an absolute path, or a KV Connect server. */
export type StoreLocation = string | URL;

/** First part of every plant's key; the second is its id. */
const PLANTS = "plants";

/** A key that never holds anything: deleting it is a write without a trace. */
const PROBE_KEY = ["probe"];

/** How long the first write rests while another process holds the store. */
const PROBE_AGAIN_MS = 50;

/** What SQLite says when another process writes; nothing was written then. */
const BUSY = /database is locked/;

/** The plants in Deno KV. No other file knows `Deno.Kv`. */
export class Store implements CommitStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  readonly #kv: Deno.Kv;
  /** The file that was opened; `undefined` for a KV Connect server. */
  readonly #file: OpenedFile | undefined;

  constructor(kv: Deno.Kv, file: OpenedFile | undefined) {
    this.#kv = kv;
    this.#file = file;
    this.commitPlantsMax = file === undefined
      ? COMMIT_PLANTS_MAX_REMOTE
      : COMMIT_PLANTS_MAX_FILE;
    this.commitsInFlightMax = file === undefined
      ? COMMITS_IN_FLIGHT_MAX_REMOTE
      : COMMITS_IN_FLIGHT_MAX_FILE;
  }

  /** See {@link CommitStore}. Throws where the store failed. */
  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = [PLANTS, id];
      operation.check({ key, versionstamp: null }).set(key, plant);
    }
    try {
      const { ok } = await operation.commit();
      this.#file?.assertInPlace();
      return ok ? "committed" : "exists";
    } catch (error) {
      if (error instanceof Error && BUSY.test(error.message)) return "busy";
      throw error;
    }
  }

  /** See {@link CommitStore}. */
  async read(ids: readonly bigint[]): Promise<(Plant | null | undefined)[]> {
    const found: (Plant | null | undefined)[] = [];
    for (let i = 0; i < ids.length; i += READ_KEYS_MAX) {
      const keys = ids.slice(i, i + READ_KEYS_MAX).map((id) => [PLANTS, id]);
      for (const entry of await this.#kv.getMany<unknown[]>(keys)) {
        found.push(
          entry.versionstamp === null ? undefined : toPlant(entry.value),
        );
      }
    }
    return found;
  }

  /** Closes the store; nothing may be under way. */
  close(): void {
    this.#kv.close();
  }
}

/** The file of an embedded store, by what tells it from a later one. */
class OpenedFile {
  readonly #path: string;
  readonly #inode: number | null;
  readonly #device: number;

  constructor(path: string) {
    const { ino, dev } = Deno.statSync(path);
    this.#path = path;
    this.#inode = ino;
    this.#device = dev;
  }

  /**
   * Throws where the path no longer leads to the file that is open: SQLite
   * goes on writing into a deleted file, where nobody will find a plant.
   */
  assertInPlace(): void {
    let found: Deno.FileInfo;
    try {
      found = Deno.statSync(this.#path);
    } catch {
      throw new Error(`${this.#path} is gone: restart to begin a new store`);
    }
    if (found.ino !== this.#inode || found.dev !== this.#device) {
      throw new Error(
        `${this.#path} was replaced: restart to open the new one`,
      );
    }
  }
}

/**
 * Opens the store and sees a write of it through, within
 * {@link STORE_OPEN_MS_MAX}.
 * @throws {StartError} that says what is wrong with it
 */
export async function openStore(location: StoreLocation): Promise<Store> {
  if (typeof location === "string") assertStoreFile(location);
  const name = typeof location === "string" ? location : location.href;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no answer in ${STORE_OPEN_MS_MAX / 1000} s`)),
      STORE_OPEN_MS_MAX,
    );
  });
  try {
    return await Promise.race([openAndProbe(location), tooLate]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(
      `cannot store anything in ${name}: ${reason.replaceAll("\n", " ")}`,
      EXIT_FAILURE,
    );
  } finally {
    clearTimeout(timer);
  }
}

async function openAndProbe(location: StoreLocation): Promise<Store> {
  const isFile = typeof location === "string";
  const kv = await Deno.openKv(isFile ? location : location.href);
  // A read-only file opens well and fails at its first write.
  for (;;) {
    try {
      await kv.atomic().delete(PROBE_KEY).commit();
      return new Store(kv, isFile ? new OpenedFile(location) : undefined);
    } catch (error) {
      if (!(error instanceof Error && BUSY.test(error.message))) throw error;
      await new Promise((resolve) => setTimeout(resolve, PROBE_AGAIN_MS));
    }
  }
}

/** Refuses what SQLite would take for a store, or fail on later. */
function assertStoreFile(path: string): void {
  const file = statOrUndefined(path);
  if (file === undefined) {
    const folder = dirname(path);
    if (statOrUndefined(folder)?.isDirectory) return;
    throw new StartError(
      `there is no folder ${folder}: make it, or name ` +
        "another file with --kv or KV_PATH",
    );
  }
  if (file.isDirectory) {
    throw new StartError(
      `${path} is a folder: name a file in it with --kv ` +
        "or KV_PATH",
    );
  }
  if (file.size > 0 && !hasKvTable(path)) {
    throw new StartError(
      `${path} is no Deno KV store: name another file ` +
        "with --kv or KV_PATH",
    );
  }
}

function statOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
  }
}

function hasKvTable(path: string): boolean {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      return database.prepare(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kv'",
      ).get() !== undefined;
    } finally {
      database.close();
    }
  } catch (error) {
    // Anything else, such as a lock, is for the opening itself to report.
    return !(error instanceof Error && /not a database/.test(error.message));
  }
}

/** A stored value as a plant, or `null` where it is none. */
function toPlant(value: unknown): Plant | null {
  if (typeof value !== "object" || value === null) return null;
  if (!("name" in value) || typeof value.name !== "string") return null;
  if (!("tag" in value)) return { name: value.name };
  if (typeof value.tag !== "string") return null;
  return { name: value.name, tag: value.tag };
}
