/** Plants in Deno KV, as the service and the operator use them. */
import type { Clock } from "../clock.ts";
import { COMMIT_MS_MAX, ID_MAX, ID_MIN } from "../limits.ts";
import { type NewPlant, type Plant, toPlant } from "../plant/plant.ts";
import { idIn, isPlantKey, keyOf, readEntries } from "./entries.ts";
import type { WatchedFiles } from "./files/watch.ts";
import { retryWhileLocked, withTimeout } from "./retry.ts";
import { corrupt, isOfKind, StoreError } from "./store_error.ts";

/** The bounds of commits to a store. */
export interface CommitBounds {
  /** Maximum plants in one commit. */
  readonly plantsMax: number;
  /** Maximum commits in flight. */
  readonly inFlightMax: number;
}

/**
 * What a service needs of a store. Every method can throw a `StoreError`: of the
 * kind "locked" while another process writes, and always the same one after the
 * store was found lost or corrupt. No method has a time limit, and an answer may
 * never come.
 */
export interface Store {
  readonly commitBounds: CommitBounds;

  /** Size of the database file; `undefined` if the store is not in a file. */
  readonly databaseBytes: number | undefined;

  /**
   * Writes plants within {@link commitBounds}, all or none.
   * @returns `committed` if all are on disk. `exists` if the id of one exists, and
   * nothing was written. It may be a plant of this very commit: Deno can repeat a
   * write whose answer was lost.
   */
  commit(plants: readonly NewPlant[]): Promise<"committed" | "exists">;

  /**
   * Returns the plants of these ids that exist, and possibly those of other ids. A
   * plant is `null` if the stored value is not a plant of this service, or cannot
   * be decoded.
   */
  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>>;

  /** Verifies all files, and performs a no-op write. */
  probe(): Promise<void>;

  /** Verifies that no file of the store was deleted, moved or replaced. */
  verifyFiles(): void;
}

/** A stored id; the plant is `null` if the value is not one of this service. */
export interface Listed {
  readonly id: bigint;
  readonly plant: Plant | null;
}

/** Deno KV after it was opened, and what depends on where; `open.ts` makes it. */
export interface Connection {
  readonly kv: Pick<Deno.Kv, "atomic" | "close" | "get" | "getMany" | "list">;
  readonly commitBounds: CommitBounds;
  /** The files, if the store is in a file. */
  readonly files: WatchedFiles | undefined;
  /** Converts an error of Deno KV. */
  readonly toStoreError: (error: unknown) => StoreError;
}

/** A key without a value, of no other program: deleting it is a no-op write. */
const PROBE_KEY = ["probe", crypto.randomUUID()];

/**
 * A check that succeeds. Without any, SQLite itself waits for the lock, up to
 * 5 s, and blocks every commit meanwhile.
 */
const ALWAYS: Deno.AtomicCheck = { key: PROBE_KEY, versionstamp: null };

/** The smallest part of a key. */
const FIRST_PART = new Uint8Array();

/**
 * Keys in one page of a listing: 8 MiB of the largest plants. With 64, an export
 * takes a third longer.
 */
export const PAGE_KEYS = 128;

/** Time for one page of a listing, or for one plant of an export. */
const LIST_MS_MAX = 10_000;

/**
 * An open store: a {@link Store} for the service, and `get`, `list` and `remove`
 * for the operator, which have time limits.
 */
export class KvStore implements Store {
  readonly commitBounds: CommitBounds;
  readonly #kv: Connection["kv"];
  readonly #files: Connection["files"];
  readonly #convert: Connection["toStoreError"];
  readonly #clock: Clock;
  /** Why the store has ended, if it has. */
  #end: StoreError | undefined;

  constructor(
    { kv, commitBounds, files, toStoreError }: Connection,
    clock: Clock,
  ) {
    this.commitBounds = commitBounds;
    this.#kv = kv;
    this.#files = files;
    this.#convert = toStoreError;
    this.#clock = clock;
  }

  get databaseBytes(): number | undefined {
    return this.#files?.bytes;
  }

  async commit(plants: readonly NewPlant[]): Promise<"committed" | "exists"> {
    const operation = this.#kv.atomic();
    for (const { id, plant } of plants) {
      const key = keyOf(id);
      // Measured: mutate() costs less time than set().
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    const { ok } = await this.#run(() => operation.commit());
    return ok ? "committed" : "exists";
  }

  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    const found = new Map<bigint, Plant | null>();
    try {
      const entries = await this.#run(() => readEntries(this.#kv, ids));
      for (const { key, value, versionstamp } of entries) {
        if (isPlantKey(key) && versionstamp !== null) {
          found.set(key[1], toPlant(value));
        }
      }
    } catch (error) {
      if (!isOfKind(error, "newer format")) throw error;
      // One by one, so that a value that cannot be decoded hides no other.
      await Promise.all(ids.map(async (id) => {
        const plant = await this.get(id);
        if (plant !== undefined) found.set(id, plant);
      }));
    }
    return found;
  }

  async probe(): Promise<void> {
    this.verifyFiles();
    const operation = this.#kv.atomic().check(ALWAYS).delete(PROBE_KEY);
    await this.#run(() => operation.commit());
  }

  verifyFiles(): void {
    try {
      this.#requireOpen();
      this.#files?.verifyAll();
    } catch (error) {
      throw this.#toStoreError(error);
    }
  }

  /**
   * Reads a plant.
   * @returns `null` if the value is not a plant of this service, or cannot be
   * decoded; `undefined` if there is no value
   * @throws {StoreError}
   */
  async get(id: bigint): Promise<Plant | null | undefined> {
    const entry = await withTimeout(LIST_MS_MAX, this.#entryOf(id));
    if (entry === undefined) return null;
    return entry.versionstamp === null ? undefined : toPlant(entry.value);
  }

  /**
   * Lists the plants above an id, in the order of ids or in reverse, in pages. At
   * damage, it yields the plants before it, then throws.
   * @throws {StoreError}
   */
  async *list(
    after = ID_MIN - 1n,
    reverse = false,
  ): AsyncGenerator<readonly Listed[]> {
    let [first, last] = [after + 1n, ID_MAX];
    let [start, end] = [keyOf(first), keyOf(last + 1n)];
    let limit = PAGE_KEYS;
    for (;;) {
      let page: readonly Deno.KvEntry<unknown>[];
      try {
        const entries = this.#kv.list({ start, end }, { limit, reverse });
        page = await withTimeout(LIST_MS_MAX, Array.fromAsync(entries));
      } catch (thrown) {
        const error = this.#toStoreError(thrown);
        if (limit === 1 || !error.isDamage) throw error;
        // Read what is before the damage, key by key.
        limit = 1;
        continue;
      }
      yield page.flatMap(({ key, value }) =>
        isPlantKey(key) ? [{ id: key[1], plant: toPlant(value) }] : []
      );
      if (page.length < limit) return;
      for (const { key } of page) {
        const id = idIn(key);
        // Damage may change the order, and then a listing may never end.
        if (id === undefined || id < first || id > last) throw corrupt();
        if (reverse) [last, end] = [id, key];
        else [first, start] = [id, [...key, FIRST_PART]];
      }
    }
  }

  /**
   * Removes the value of an id, also one that cannot be decoded. It waits while
   * another process has the lock.
   * @returns whether there was one
   * @throws {StoreError}
   */
  remove(id: bigint): Promise<boolean> {
    return retryWhileLocked(COMMIT_MS_MAX, this.#clock, async () => {
      for (;;) {
        const entry = await this.#entryOf(id);
        if (entry?.versionstamp === null) return false;
        // An entry is the check that it has not changed. A value that cannot be
        // decoded has no known version, so it is removed whatever it is by now.
        const operation = this.#kv.atomic().check(entry ?? ALWAYS)
          .delete(keyOf(id));
        const { ok } = await this.#run(() => operation.commit());
        if (ok) return true;
        // On a server, the change may be this removal, which Deno has repeated.
        if (this.#files === undefined) {
          throw new StoreError("other", "another client has changed it");
        }
      }
    });
  }

  /** Closes the store. The outcomes of pending operations are lost. */
  close(): void {
    this.#kv.close();
  }

  /** Reads the entry of an id; returns `undefined` if its value cannot be decoded. */
  async #entryOf(
    id: bigint,
  ): Promise<Deno.KvEntryMaybe<unknown> | undefined> {
    try {
      return await this.#run(() => this.#kv.get(keyOf(id)));
    } catch (error) {
      if (isOfKind(error, "newer format")) return undefined;
      throw error;
    }
  }

  /**
   * Runs an operation whose result is acknowledged. What is verified when:
   *
   * |                           | before           | after           |
   * | ------------------------- | ---------------- | --------------- |
   * | commit, read, get, remove | not ended        | not ended, file |
   * | probe                     | not ended, files | not ended, file |
   * | verifyFiles               | not ended, files |                 |
   * | list                      |                  |                 |
   *
   * `not ended`: a store that was found lost or corrupt has ended. Every operation
   * fails then, also one that is running, and also if its files are put back: they
   * lack what was written meanwhile.
   *
   * `file`: the database is in its place. SQLite writes to a deleted file without
   * an error, so this is verified after each operation. `files`: the files beside
   * it are in their places, too. Verifying them slows the next commit, so it is
   * done at intervals.
   *
   * A listing verifies nothing, because an export saves what is left.
   * @throws {StoreError}
   */
  async #run<Result>(operation: () => Promise<Result>): Promise<Result> {
    try {
      this.#requireOpen();
      const result = await operation();
      this.#requireOpen();
      this.#files?.verifyDatabase();
      return result;
    } catch (error) {
      throw this.#toStoreError(error);
    }
  }

  #requireOpen(): void {
    if (this.#end !== undefined) throw this.#end;
  }

  /** Converts an error, and ends the store if it is lost or corrupt. */
  #toStoreError(thrown: unknown): StoreError {
    const error = this.#convert(thrown);
    if (error.endsStore) this.#end ??= error;
    return error;
  }
}
