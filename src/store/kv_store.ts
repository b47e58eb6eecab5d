import {
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_SERVER,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_SERVER,
  ID_MAX,
  ID_MIN,
  LIST_KEYS_MAX,
  LIST_MS_MAX,
  PAGE_KEYS,
  READ_KEYS_MAX,
} from "../limits.ts";
import { statOrUndefined } from "./files/file_system.ts";
import { type NewPlant, type Plant, toPlant } from "../plant/plant.ts";
import { WatchedFiles } from "./files/watch.ts";
import { KV_TOKEN, type StoreLocation } from "./location.ts";
import { withTimeout } from "./retry.ts";
import type { CommitResult, Store } from "./store.ts";
import { StoreError, toStoreError } from "../store_error.ts";

/** First part of the key of a plant; the second is its id. */
const PLANTS = "plants";

/** A key without a value, of no other program: deleting it is a no-op write. */
const PROBE_KEY = ["probe", crypto.randomUUID()];

/** Minimum ids in a run to read them with one listing. */
const RUN_IDS_MIN = 4;

/** Maximum distance between two neighboring ids of a run. */
const RUN_GAP_MAX = 4n;

/** A stored id; the plant is `null` if the value is not one of this service. */
export interface Listed {
  readonly id: bigint;
  readonly plant: Plant | null;
}

/** The plants in Deno KV. No other file uses `Deno.Kv`. */
export class KvStore implements Store {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  readonly isNew: boolean;
  /** The open files; `undefined` for a KV Connect server. */
  readonly #files: WatchedFiles | undefined;
  readonly #kv: Deno.Kv;
  /** The token of a KV Connect server. */
  readonly #token: string | undefined;
  /** Set when the store is found to be corrupt or lost: no write may follow. */
  #end: StoreError | undefined;

  private constructor(
    kv: Deno.Kv,
    isNew: boolean,
    files: WatchedFiles | undefined,
    token?: string,
  ) {
    this.#kv = kv;
    this.isNew = isNew;
    this.#files = files;
    this.#token = token;
    if (files !== undefined) {
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
        return new KvStore(kv, isNew, files);
      } catch (error) {
        kv.close();
        throw error;
      }
    }
    const { url, token } = location;
    // Deno reads the token from the environment only.
    Deno.env.set(KV_TOKEN, token);
    try {
      return new KvStore(await Deno.openKv(url), isNew, undefined, token);
    } catch (error) {
      throw toStoreError(error, token);
    }
  }

  get databaseBytes(): number | undefined {
    return this.#files?.bytes;
  }

  /** See {@link Store}. @throws {StoreError} */
  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    // A lost or corrupt store must not be written to.
    this.#throwIfEnded();
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = [PLANTS, id];
      // Measured: mutate() costs less time than set().
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    try {
      const { ok } = await operation.commit();
      this.#checkDatabase();
      return ok ? "committed" : "exists";
    } catch (thrown) {
      const error = this.#toError(thrown);
      if (error.kind === "locked") return "locked";
      throw error;
    }
  }

  /**
   * See {@link Store}. A run of ids is read with one listing, which costs
   * SQLite a quarter of reading them one by one: clients that repeat their last
   * creates usually send ids that are close to each other.
   * @throws {StoreError}
   */
  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    const { long = [], short = [] } = Object.groupBy(
      toRuns(ids),
      ({ length }) => length < RUN_IDS_MIN ? "short" : "long",
    );
    try {
      const reads = [...long.map((run) => this.#list(run)), this.#get(short)];
      const found = new Map<bigint, Plant | null>();
      for (
        const { key, value, versionstamp } of (await Promise.all(reads)).flat()
      ) {
        const id = idOf(key);
        if (id !== undefined && versionstamp !== null) {
          found.set(id, toPlant(value));
        }
      }
      this.#checkDatabase();
      return found;
    } catch (thrown) {
      const error = this.#toError(thrown);
      const [id] = ids;
      if (error.kind !== "newer format" || id === undefined) throw error;
      // The value of a single id is the one that cannot be decoded.
      if (ids.length === 1) return new Map([[id, null]]);
      const found = await Promise.all(ids.map((id) => this.read([id])));
      return new Map(found.flatMap((it) => [...it]));
    }
  }

  /**
   * Removes the value of an id, also one that cannot be decoded.
   * @returns whether there was one
   * @throws {StoreError}
   */
  async remove(id: bigint): Promise<boolean> {
    const found = await this.read([id]);
    if (found.has(id)) await this.#delete([PLANTS, id]);
    return found.has(id);
  }

  /**
   * Lists the plants above an id, in the order of ids or in reverse, in pages. Each
   * has a time limit, since a KV Connect server may never answer. Damage ends it
   * after the last plant before it.
   * @throws {StoreError}
   */
  async *list(
    after = ID_MIN - 1n,
    reverse = false,
  ): AsyncGenerator<readonly Listed[]> {
    let [first, last] = [after + 1n, ID_MAX];
    let limit = PAGE_KEYS;
    let page: readonly Listed[];
    do {
      try {
        const listed = this.#listPage(first, last, limit, reverse);
        page = await withTimeout(listed, LIST_MS_MAX);
      } catch (error) {
        if (limit === 1 || !toStoreError(error).isDamage) throw error;
        // A page includes what is readable before the damage.
        limit = 1;
        page = await withTimeout(
          this.#listPage(first, last, limit, reverse),
          LIST_MS_MAX,
        );
      }
      yield page;
      for (const { id } of page) {
        // Damage may change the order, and then a listing may never end.
        if (id < first || id > last) throw new StoreError("corrupt");
        if (reverse) last = id - 1n;
        else first = id + 1n;
      }
    } while (page.length === limit);
  }

  /** See {@link Store}. @throws {StoreError} */
  async probe(): Promise<void> {
    const error = this.checkFiles();
    if (error !== undefined) throw error;
    await this.#delete(PROBE_KEY);
  }

  /** See {@link Store}. */
  checkFiles(): StoreError | undefined {
    try {
      this.#throwIfEnded();
      this.#files?.check();
      return undefined;
    } catch (error) {
      return this.#toError(error);
    }
  }

  /** Closes the store. The outcomes of pending operations are lost. */
  close(): void {
    this.#kv.close();
  }

  #throwIfEnded(): void {
    if (this.#end !== undefined) throw this.#end;
  }

  /** A corrupt store can still be read; nothing of a lost one is acknowledged. */
  #checkDatabase(): void {
    if (this.#end?.kind === "lost") throw this.#end;
    this.#files?.checkDatabase();
  }

  /** Converts an error, and remembers that the store is corrupt or lost. */
  #toError(error: unknown): StoreError {
    const converted = toStoreError(error, this.#token);
    if (converted.isFinal) this.#end ??= converted;
    return converted;
  }

  /** Deletes a key, which may have no value. */
  async #delete(key: Deno.KvKey): Promise<void> {
    this.#throwIfEnded();
    try {
      // Without a check, SQLite itself waits for the lock, up to 5 s, and
      // blocks every commit meanwhile.
      await this.#kv.atomic()
        .check({ key: PROBE_KEY, versionstamp: null })
        .delete(key).commit();
      this.#checkDatabase();
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Lists the first plants of a range of ids, or the last ones. */
  async #listPage(
    first: bigint,
    last: bigint,
    limit: number,
    reverse: boolean,
  ): Promise<Listed[]> {
    const listing = this.#kv.list(
      { start: [PLANTS, first], end: [PLANTS, last + 1n] },
      { batchSize: limit, limit, reverse },
    );
    try {
      return await Array.fromAsync(listing, toListed);
    } catch (error) {
      throw this.#toError(error);
    }
  }

  /** Reads the keys from the first to the last id of a run. */
  #list(run: readonly bigint[]): Promise<Deno.KvEntryMaybe<unknown>[]> {
    const [first = 0n, last = first] = [run.at(0), run.at(-1)];
    const listing = this.#kv.list(
      { start: [PLANTS, first], end: [PLANTS, last + 1n] },
      { batchSize: LIST_KEYS_MAX },
    );
    return Array.fromAsync(listing);
  }

  /** Reads the ids of runs, whether they have a value or not. */
  async #get(
    runs: readonly (readonly bigint[])[],
  ): Promise<Deno.KvEntryMaybe<unknown>[]> {
    const keys = runs.flat().map((id) => [PLANTS, id]);
    const reads: Promise<Deno.KvEntryMaybe<unknown>[]>[] = [];
    for (let i = 0; i < keys.length; i += READ_KEYS_MAX) {
      reads.push(this.#kv.getMany<unknown[]>(keys.slice(i, i + READ_KEYS_MAX)));
    }
    return (await Promise.all(reads)).flat();
  }
}

/** Splits ids into ascending runs without a gap above {@link RUN_GAP_MAX}. */
function toRuns(ids: readonly bigint[]): bigint[][] {
  const runs: bigint[][] = [];
  for (const id of ids.toSorted((a, b) => a < b ? -1 : 1)) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    if (last !== undefined && id - last <= RUN_GAP_MAX) run?.push(id);
    else runs.push([id]);
  }
  return runs;
}

/** Returns the id in the key of a plant, or `undefined` for a key that is not of a plant. */
function idOf(key: Deno.KvKey): bigint | undefined {
  return key.length === 2 && typeof key[1] === "bigint" ? key[1] : undefined;
}

/** Returns an entry between two ids. Another program may store longer keys. */
function toListed({ key, value }: Deno.KvEntry<unknown>): Listed {
  const [, id] = key;
  if (typeof id !== "bigint") throw new StoreError("corrupt");
  return { id, plant: key.length === 2 ? toPlant(value) : null };
}
