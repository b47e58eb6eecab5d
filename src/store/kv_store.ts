import {
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_SERVER,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_SERVER,
  LIST_KEYS_MAX,
  LIST_MS_MAX,
  PAGE_CHARS,
  PAGE_KEYS_MAX,
  PAGE_KEYS_MIN,
  READ_KEYS_MAX,
} from "../limits.ts";
import {
  countChars,
  type NewPlant,
  type Plant,
  toPlant,
} from "../plant/plant.ts";
import type { CommitResult, CommitStore } from "./committer.ts";
import { statOrUndefined } from "../files/file_system.ts";
import type { ObservedStore } from "./health.ts";
import type { StoreLocation } from "./location.ts";
import { WatchedFiles } from "./files/watch.ts";
import { toStoreError } from "./store_error.ts";
import { FileError, isDamaged, isLocked } from "../files/file_error.ts";
import { withTimeout } from "./retry.ts";

/** First part of the key of a plant; the second is its id. */
const PLANTS = "plants";

/** A key without a value, of no other program: deleting it is a no-op write. */
const PROBE_KEY = ["probe", crypto.randomUUID()];

/** Minimum ids in a run to read them with one listing. */
const RUN_IDS_MIN = 4;

/** Maximum distance between two neighboring ids of a run. */
const RUN_GAP_MAX = 4n;

/** The plants in Deno KV. No other file uses `Deno.Kv`. */
export class KvStore implements CommitStore, ObservedStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  /** Whether the store was created when it was opened. */
  readonly isNew: boolean;
  /** The open files; `undefined` for a KV Connect server. */
  readonly files: WatchedFiles | undefined;
  /** The last damage that an operation found. */
  damage: FileError | undefined;
  readonly #kv: Deno.Kv;
  readonly #location: StoreLocation;
  /** That the database is corrupt, once that is known: no write may follow. */
  #corruption: string | undefined;

  private constructor(
    kv: Deno.Kv,
    location: StoreLocation,
    isNew: boolean,
    files?: WatchedFiles,
  ) {
    this.#kv = kv;
    this.#location = location;
    this.isNew = isNew;
    this.files = files;
    if (location.kind === "file") {
      this.commitPlantsMax = COMMIT_PLANTS_MAX_FILE;
      this.commitsInFlightMax = COMMITS_IN_FLIGHT_MAX_FILE;
    } else {
      this.commitPlantsMax = COMMIT_PLANTS_MAX_SERVER;
      this.commitsInFlightMax = COMMITS_IN_FLIGHT_MAX_SERVER;
    }
  }

  /**
   * Opens the database at a location. A KV Connect server may take 30 s to fail.
   * @param isNew whether the database was created for this store
   */
  static async open(location: StoreLocation, isNew: boolean): Promise<KvStore> {
    if (location.kind === "file") {
      const database = statOrUndefined(location.path);
      const kv = await Deno.openKv(location.path);
      try {
        const files = new WatchedFiles(location.path, database);
        return new KvStore(kv, location, isNew, files);
      } catch (error) {
        kv.close();
        throw error;
      }
    }
    // Deno reads the token from the environment only.
    Deno.env.set("DENO_KV_ACCESS_TOKEN", location.token);
    return new KvStore(await Deno.openKv(location.url), location, isNew);
  }

  /** See {@link CommitStore}. @throws {FileError} */
  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    // The files may belong to another process by now.
    this.#assertNone(this.files?.loss ?? this.#corruption);
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = [PLANTS, id];
      // Measured: mutate() costs less time than set().
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    try {
      const { ok } = await operation.commit();
      this.#assertNone(this.files?.checkDatabase());
      return ok ? "committed" : "exists";
    } catch (error) {
      if (isLocked(error)) return "locked";
      throw this.#toError(error);
    }
  }

  /**
   * See {@link CommitStore}. A run of ids is read with one listing, which costs
   * SQLite a quarter of reading them one by one.
   * @throws {FileError}
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
      this.#assertNone(this.files?.checkDatabase());
      return found;
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /**
   * Lists every plant in the order of ids, in pages, and prefetches the next
   * page. A string is a key whose value is not a plant of this service. Of a
   * damaged store it lists the plants before the damage.
   * @throws {FileError}
   */
  async *pages(): AsyncGenerator<readonly (NewPlant | string)[]> {
    let keys = PAGE_KEYS_MIN;
    let damage: FileError | undefined;
    /** Number of keys that are read one by one, up to the damage. */
    let keysLeft = 0;
    let cursor = "";
    let lastId: bigint | undefined;
    const readPage = async (): Promise<(NewPlant | string)[]> => {
      // A listing has one batch size, so each page has a listing of its own.
      const listing = this.#kv.list(
        { prefix: [PLANTS] },
        { batchSize: keys, limit: keys, cursor },
      );
      const page = await Array.fromAsync(listing, toNewPlant);
      lastId = lastIdOf(page, lastId);
      cursor = listing.cursor;
      return page;
    };
    /** Reads a page, or if that fails, the plants at its start one by one. */
    const readNext = async (): Promise<(NewPlant | string)[]> => {
      try {
        return await withTimeout(readPage(), LIST_MS_MAX);
      } catch (error) {
        const failure = this.#toError(error);
        if (!isDamaged(failure) || damage !== undefined) throw failure;
        damage = failure;
        keysLeft = keys;
        keys = 1;
        return await readNext();
      }
    };
    let next = readNext();
    for (;;) {
      const page = await next;
      if (page.length < keys) {
        yield page;
        if (damage === undefined) return;
        throw damage;
      }
      if (damage === undefined) keys = nextPageKeys(page);
      else if (keysLeft-- === 0) throw damage;
      next = readNext();
      // Ignore the prefetched page if the consumer stops early.
      next.catch(() => {});
      yield page;
    }
  }

  /** See {@link ObservedStore}. @throws {FileError} */
  async probe(): Promise<void> {
    try {
      this.#assertNone(this.checkFiles());
      // Without a check, SQLite itself waits for the lock, up to 5 s, and
      // blocks every commit meanwhile.
      const { ok } = await this.#kv.atomic()
        .check({ key: PROBE_KEY, versionstamp: null })
        .delete(PROBE_KEY).commit();
      if (!ok) throw new FileError("other", "the probe key has a value");
      this.#assertNone(this.files?.loss);
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Rejects if this Deno cannot read the first plants. @throws {FileError} */
  async checkReadable(): Promise<void> {
    const listing = this.#kv.list(
      { prefix: [PLANTS] },
      { limit: PAGE_KEYS_MAX },
    );
    try {
      lastIdOf(await Array.fromAsync(listing, toNewPlant), undefined);
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** See {@link ObservedStore}. */
  checkFiles(): string | undefined {
    return this.files?.check() ?? this.#corruption;
  }

  /** Closes the store; no operation may be pending. */
  close(): void {
    this.#kv.close();
  }

  /** @throws {FileError} if the open files have a problem */
  #assertNone(problem: string | undefined): void {
    if (problem !== undefined) throw new FileError("other", problem);
  }

  /** Converts an error, and remembers damage. */
  #toError(error: unknown): FileError {
    const converted = toStoreError(error, this.#location);
    if (converted.problem === "corrupt") this.#corruption = converted.message;
    if (isDamaged(converted)) this.damage = converted;
    return converted;
  }

  /** Reads the keys that have a value. */
  async #getExisting(keys: Deno.KvKey[]): Promise<Deno.KvEntry<unknown>[]> {
    const entries = await this.#kv.getMany<unknown[]>(keys);
    return entries.filter((entry) => entry.versionstamp !== null);
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

/** Returns the number of keys of the next page, if its plants are as large. */
function nextPageKeys(page: readonly (NewPlant | string)[]): number {
  let chars = 0;
  for (const entry of page) {
    chars += typeof entry === "string" ? entry.length : countChars(entry.plant);
  }
  return Math.min(PAGE_KEYS_MAX, Math.floor(PAGE_CHARS * page.length / chars));
}

/**
 * Returns the last id of a page, or that of the pages before it.
 * @throws {FileError} if the ids do not ascend: parts of the database are in the
 * place of others, so a listing may go round in a circle
 */
function lastIdOf(
  page: readonly (NewPlant | string)[],
  previous: bigint | undefined,
): bigint | undefined {
  let last = previous;
  for (const entry of page) {
    if (typeof entry === "string") continue;
    if (last !== undefined && entry.id <= last) throw new FileError("corrupt");
    last = entry.id;
  }
  return last;
}

/** Returns an entry as a plant, or its key as text if it is not one. */
function toNewPlant({ key, value }: Deno.KvEntry<unknown>): NewPlant | string {
  const id = idOf(key);
  const plant = toPlant(value);
  return id !== undefined && plant !== null ? { id, plant } : Deno.inspect(key);
}
