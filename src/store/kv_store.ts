import { setTimeout as sleep } from "node:timers/promises";
import {
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_SERVER,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_SERVER,
  LIST_CHARS,
  LIST_KEYS_MAX,
  LIST_KEYS_MIN,
  LIST_MS_MAX,
  LOCK_RETRY_MS_MAX,
  PROBE_MS,
  READ_KEYS_MAX,
  STORE_OPEN_MS_MAX,
} from "../limits.ts";
import { errorMessage, toLine, truncate } from "../messages.ts";
import {
  countChars,
  type NewPlant,
  type Plant,
  toPlant,
} from "../plant/plant.ts";
import type { CommitResult, CommitStore } from "./committer.ts";
import {
  checkStoreExists,
  checkStoreUsable,
  copyClosed,
  DatabaseFile,
  leaveWalMode,
} from "./database_file.ts";
import type { ObservedStore } from "./health.ts";
import { StoreError, type StoreProblem } from "./store_error.ts";

/** Where plants are stored. */
export type StoreLocation =
  /** An embedded database; the path is absolute. */
  | { readonly kind: "file"; readonly path: string }
  /** A KV Connect server, and the token that Deno sends to it. */
  | { readonly kind: "server"; readonly url: string; readonly token: string };

/** First part of the key of a plant; the second is its id. */
const PLANTS = "plants";

/** A key that never has a value: deleting it is a no-op write. */
const PROBE_KEY = ["probe"];

/** SQLite's message while another process writes; nothing was written. */
const LOCKED = /database is locked/;

/** Minimum ids in a run to read them with one listing. */
const RUN_IDS_MIN = 4;

/** Maximum distance between two neighboring ids of a run. */
const RUN_GAP_MAX = 4n;

/** Maximum length of a message of a KV Connect server, in UTF-16 code units. */
const SERVER_MESSAGE_CHARS_MAX = 200;

/** Deno's message for a value that a newer Deno wrote. */
const NEWER_FORMAT = /could not deserialize/;

/** Messages of SQLite, with their problem and a clearer message. */
const FILE_PROBLEMS: readonly [RegExp, StoreProblem, string][] = [
  [
    /unable to open database file|read-?only database|permission denied/i,
    "denied",
    "permission denied on the file or its directory",
  ],
  [/malformed/, "corrupt", "the database is corrupt"],
];

/** The plants in Deno KV. No other file uses `Deno.Kv`. */
export class KvStore implements CommitStore, ObservedStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  readonly #kv: Deno.Kv;
  readonly #location: StoreLocation;
  /** The open file; `undefined` for a KV Connect server. */
  readonly #file: DatabaseFile | undefined;
  readonly #temporaryDirectory: string | undefined;

  /**
   * @param kv the database that is open at the location
   * @param temporaryDirectory a directory to remove when the store is closed
   */
  constructor(
    kv: Deno.Kv,
    location: StoreLocation,
    temporaryDirectory?: string,
  ) {
    this.#kv = kv;
    this.#location = location;
    this.#temporaryDirectory = temporaryDirectory;
    if (location.kind === "file") {
      this.#file = new DatabaseFile(location.path);
      this.commitPlantsMax = COMMIT_PLANTS_MAX_FILE;
      this.commitsInFlightMax = COMMITS_IN_FLIGHT_MAX_FILE;
    } else {
      this.commitPlantsMax = COMMIT_PLANTS_MAX_SERVER;
      this.commitsInFlightMax = COMMITS_IN_FLIGHT_MAX_SERVER;
    }
  }

  /** See {@link CommitStore}. @throws {StoreError} */
  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = [PLANTS, id];
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    try {
      const { ok } = await operation.commit();
      this.#assertInPlace();
      return ok ? "committed" : "exists";
    } catch (error) {
      if (LOCKED.test(errorMessage(error))) return "busy";
      throw toStoreError(error, this.#location);
    }
  }

  /**
   * See {@link CommitStore}. A run of ids is read with one listing, which costs
   * SQLite a quarter of reading them one by one.
   * @throws {StoreError}
   */
  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    const reads: Promise<Deno.KvEntry<unknown>[]>[] = [];
    const others: bigint[] = [];
    for (const run of toRuns(ids)) {
      const [first, last] = [run.at(0), run.at(-1)];
      if (
        first === undefined || last === undefined || run.length < RUN_IDS_MIN
      ) {
        others.push(...run);
        continue;
      }
      const listing = this.#kv.list(
        { start: [PLANTS, first], end: [PLANTS, last + 1n] },
        { batchSize: LIST_KEYS_MAX },
      );
      reads.push(Array.fromAsync(listing));
    }
    for (let i = 0; i < others.length; i += READ_KEYS_MAX) {
      const keys = others.slice(i, i + READ_KEYS_MAX).map((id) => [PLANTS, id]);
      reads.push(this.#getExisting(keys));
    }
    try {
      const found = new Map<bigint, Plant | null>();
      for (const { key, value } of (await Promise.all(reads)).flat()) {
        const id = idOf(key);
        if (id !== undefined) found.set(id, toPlant(value));
      }
      this.#assertInPlace();
      return found;
    } catch (error) {
      throw toStoreError(error, this.#location);
    }
  }

  /**
   * Lists every plant in the order of ids, in pages, and prefetches the next
   * page. A string is a key whose value is not a plant of this service.
   * @throws {StoreError}
   */
  async *pages(): AsyncGenerator<readonly (NewPlant | string)[]> {
    let size = LIST_KEYS_MIN;
    let next = this.#readPage(size, "");
    for (;;) {
      const { entries, cursor } = await next.catch((error) => {
        throw toStoreError(error, this.#location);
      });
      const page = entries.map(toNewPlant);
      if (entries.length < size) {
        yield page;
        return;
      }
      // Pages of large plants have fewer keys, which bounds the memory.
      const charsPerPlant = page.reduce(addChars, 1) / page.length;
      size = Math.floor(LIST_CHARS / charsPerPlant);
      size = Math.max(LIST_KEYS_MIN, Math.min(size, LIST_KEYS_MAX));
      next = this.#readPage(size, cursor);
      // Ignore the prefetched page if the consumer stops early.
      next.catch(() => {});
      yield page;
    }
  }

  /**
   * See {@link ObservedStore}.
   * @param timeoutMs how long to retry while another process holds the lock
   * @throws {StoreError}
   */
  async probe(timeoutMs: number = PROBE_MS): Promise<void> {
    const untilMs = performance.now() + timeoutMs;
    for (;;) {
      try {
        // Without a check, SQLite itself waits for the lock, up to 5 s, and
        // blocks every commit meanwhile.
        await this.#kv.atomic().check({ key: PROBE_KEY, versionstamp: null })
          .delete(PROBE_KEY).commit();
        return;
      } catch (error) {
        const isLocked = LOCKED.test(errorMessage(error));
        if (!isLocked || performance.now() > untilMs) {
          throw toStoreError(error, this.#location);
        }
        await sleep(LOCK_RETRY_MS_MAX);
      }
    }
  }

  /** Checks that this Deno can read the stored values; rejects otherwise. */
  async checkReadable(): Promise<void> {
    await this.#readPage(1, "");
  }

  /** See {@link ObservedStore}. */
  fileProblem(): string | undefined {
    return this.#file?.problem();
  }

  /** See {@link ObservedStore}. */
  checkCompanions(): void {
    this.#file?.checkCompanions();
  }

  /** Closes the store; no operation may be pending. */
  close(): void {
    this.checkCompanions();
    const problem = this.fileProblem();
    this.#kv.close();
    if (this.#location.kind === "file" && problem === undefined) {
      leaveWalMode(this.#location.path);
    }
    if (this.#temporaryDirectory !== undefined) {
      Deno.removeSync(this.#temporaryDirectory, { recursive: true });
    }
  }

  /** @throws {StoreError} if the path no longer leads to the open database */
  #assertInPlace(): void {
    const problem = this.#file?.problem();
    if (problem !== undefined) throw new StoreError("other", problem);
  }

  /** Reads the keys that have a value. */
  async #getExisting(keys: Deno.KvKey[]): Promise<Deno.KvEntry<unknown>[]> {
    const entries = await this.#kv.getMany<unknown[]>(keys);
    return entries.filter((entry) => entry.versionstamp !== null);
  }

  /** Reads one page, within {@link LIST_MS_MAX}. */
  #readPage(size: number, cursor: string) {
    const options = { batchSize: size, limit: size };
    const listing = this.#kv.list(
      { prefix: [PLANTS] },
      cursor === "" ? options : { ...options, cursor },
    );
    const read = Array.fromAsync(listing)
      .then((entries) => ({ entries, cursor: listing.cursor }));
    return withTimeout(read, LIST_MS_MAX);
  }
}

/**
 * Opens a store to create plants, and probes it, within
 * {@link STORE_OPEN_MS_MAX}. A missing file is created.
 * @throws {StoreError}
 */
export async function openStore(location: StoreLocation): Promise<KvStore> {
  if (location.kind === "file") checkStoreUsable(location.path);
  return await open(location, async (store) => {
    // A read-only file opens without an error and fails at the first write.
    await store.probe(STORE_OPEN_MS_MAX);
    await store.checkReadable();
  });
}

/**
 * Opens an existing store to read it, within {@link STORE_OPEN_MS_MAX}.
 *
 * SQLite creates files beside an open database. If it lacks the permission, this
 * opens a copy, which is complete only if no process has the store open.
 * @throws {StoreError}
 */
export async function openStoreToRead(
  location: StoreLocation,
): Promise<KvStore> {
  const check = (store: KvStore) => store.checkReadable();
  if (location.kind === "server") return await open(location, check);
  checkStoreExists(location.path);
  try {
    return await open(location, check);
  } catch (error) {
    if (!(error instanceof StoreError && error.problem === "denied")) {
      throw error;
    }
    return await openCopy(location.path, check, error);
  }
}

/** @param denied the error to throw if the copy would not be complete */
async function openCopy(
  path: string,
  check: (store: KvStore) => Promise<void>,
  denied: StoreError,
): Promise<KvStore> {
  const directory = Deno.makeTempDirSync();
  const location = { kind: "file", path: `${directory}/plants.db` } as const;
  try {
    if (!copyClosed(path, location.path)) throw denied;
    return await open(location, check, directory);
  } catch (error) {
    Deno.removeSync(directory, { recursive: true });
    throw toStoreError(error, location);
  }
}

async function open(
  location: StoreLocation,
  check: (store: KvStore) => Promise<void>,
  temporaryDirectory?: string,
): Promise<KvStore> {
  async function openAndCheck(): Promise<KvStore> {
    const kv = await Deno.openKv(
      location.kind === "file" ? location.path : location.url,
    );
    try {
      const store = new KvStore(kv, location, temporaryDirectory);
      await check(store);
      return store;
    } catch (error) {
      kv.close();
      throw error;
    }
  }
  try {
    return await withTimeout(openAndCheck(), STORE_OPEN_MS_MAX);
  } catch (error) {
    throw toStoreError(error, location);
  }
}

/**
 * Converts an error of Deno or SQLite to a StoreError. The message of a KV
 * Connect server can contain anything, even the token, so the token is masked and
 * the message truncated and put on one line.
 */
export function toStoreError(
  error: unknown,
  location: StoreLocation,
): StoreError {
  if (error instanceof StoreError) return error;
  const message = errorMessage(error);
  if (NEWER_FORMAT.test(message)) {
    return new StoreError("newer format", "a newer Deno stored plants in it");
  }
  if (location.kind === "server") {
    const masked = toLine(message.replaceAll(location.token, "[token]"));
    const words = truncate(masked, SERVER_MESSAGE_CHARS_MAX);
    return new StoreError("server", words);
  }
  for (const [pattern, problem, words] of FILE_PROBLEMS) {
    if (pattern.test(message)) return new StoreError(problem, words);
  }
  return new StoreError("other", message);
}

/** Rejects if the work takes too long; the work itself may continue. */
async function withTimeout<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timedOut = new Promise<never>((_, reject) => {
    const error = new Error(`no answer within ${timeoutMs / 1000} s`);
    timer = setTimeout(() => reject(error), timeoutMs);
  });
  try {
    return await Promise.race([work, timedOut]);
  } finally {
    clearTimeout(timer);
  }
}

/** Splits ids into ascending runs without a gap above {@link RUN_GAP_MAX}. */
function toRuns(ids: readonly bigint[]): bigint[][] {
  let run: bigint[] = [];
  const runs = [run];
  for (const id of ids.toSorted((a, b) => a < b ? -1 : 1)) {
    if (id - (run.at(-1) ?? id) > RUN_GAP_MAX) {
      run = [];
      runs.push(run);
    }
    run.push(id);
  }
  return runs;
}

/** Returns the id in the key of a plant, or `undefined` for a foreign key. */
function idOf(key: Deno.KvKey): bigint | undefined {
  return key.length === 2 && typeof key[1] === "bigint" ? key[1] : undefined;
}

/** Returns an entry as a plant, or its key as text if it is not one. */
function toNewPlant({ key, value }: Deno.KvEntry<unknown>): NewPlant | string {
  const id = idOf(key);
  const plant = toPlant(value);
  return id !== undefined && plant !== null ? { id, plant } : Deno.inspect(key);
}

/** Adds the UTF-16 code units of a plant to a sum. */
function addChars(sum: number, entry: NewPlant | string): number {
  if (typeof entry === "string") return sum;
  return sum + countChars(entry.plant);
}
