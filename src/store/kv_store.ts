import type { NewPlant } from "../plant/plant.ts";
import { type DenoKv, keyOf, type PlantsById, readPlants } from "./entries.ts";
import type { WatchedFiles } from "./files/watch.ts";
import type { StoreError } from "./store_error.ts";

/** The bounds of commits to a store. */
export interface CommitBounds {
  /** Maximum plants in one commit. */
  readonly plantsMax: number;
  /** Maximum commits in flight. */
  readonly inFlightMax: number;
}

/**
 * What the service uses of an open store. Every method throws a `StoreError` if it
 * fails, of the kind "locked" if another process writes. None has a time limit: a KV
 * Connect server may never answer.
 */
export interface Store {
  readonly commitBounds: CommitBounds;
  /** Size of the database file; `undefined` if the store is not in a file. */
  readonly databaseBytes: number | undefined;

  /**
   * Writes plants within {@link commitBounds}, all or none.
   * @returns `committed` if all are on disk. `exists` if this write failed because an id
   * exists. On a KV Connect server, the reason can be this very write, which Deno
   * repeats if its answer was lost. So read the ids before you answer.
   */
  commit(plants: readonly NewPlant[]): Promise<"committed" | "exists">;

  /**
   * Returns the plants of these ids that exist, and possibly those of other ids. A
   * plant is `null` if the stored value is not a plant of this service, or cannot
   * be decoded.
   */
  read(ids: readonly bigint[]): Promise<PlantsById>;

  /**
   * Verifies that no file of the store was deleted, moved or replaced. This slows the
   * next commit, so it is done at intervals.
   */
  verifyFiles(): void;

  /** Verifies all files, and performs a no-op write. */
  probe(): Promise<void>;

  /** Closes the store. The outcomes of pending operations are lost. */
  close(): void;
}

/** An open Deno KV, and what depends on where it is; `open.ts` makes it. */
export interface Connection {
  readonly kv: DenoKv;
  readonly commitBounds: CommitBounds;
  /**
   * Whether Deno repeats a write whose answer was lost. If a check fails then, the
   * reason may be that very write.
   */
  readonly repeatsWrites: boolean;
  /** The files, if the store is in a file. */
  readonly files: WatchedFiles | undefined;
  /** Returns why the store cannot be used, from an error of Deno KV. */
  readonly recognize: (error: unknown) => StoreError;
}

/** A key without a value, of no other program: deleting it is a no-op write. */
const PROBE_KEY = ["probe", crypto.randomUUID()];

/**
 * A check that always succeeds, for a write that needs none. A write with a check fails
 * at once if another process has the lock. A write without one waits up to 5 s for the
 * lock, and blocks every commit meanwhile.
 */
export const ALWAYS: Deno.AtomicCheck = { key: PROBE_KEY, versionstamp: null };

/**
 * An open store in Deno KV. `plants.ts` has what operators do with one.
 *
 * Once the store was found lost or corrupt, every operation but {@link runUnverified}
 * throws that error, also one that is running. Putting the files back does not help:
 * they lack what was written meanwhile. A corrupt store can still become lost: its
 * database may be intact, because SQLite reports a failed read in the same way.
 */
export class KvStore implements Store {
  readonly commitBounds: CommitBounds;
  /** Whether Deno repeats a write whose answer was lost. */
  readonly repeatsWrites: boolean;
  readonly #connection: Connection;
  /** The error that has ended the store, if one has. */
  #endedBy: StoreError | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.commitBounds = connection.commitBounds;
    this.repeatsWrites = connection.repeatsWrites;
  }

  get databaseBytes(): number | undefined {
    return this.#connection.files?.databaseBytes;
  }

  async commit(plants: readonly NewPlant[]): Promise<"committed" | "exists"> {
    const operation = this.#connection.kv.atomic();
    for (const { id, plant } of plants) {
      const key = keyOf(id);
      // Measured: mutate() costs less time than set().
      operation.check({ key, versionstamp: null })
        .mutate({ type: "set", key, value: plant });
    }
    const { ok } = await this.run(() => operation.commit());
    return ok ? "committed" : "exists";
  }

  read(ids: readonly bigint[]): Promise<PlantsById> {
    return this.run((kv) => readPlants(kv, ids));
  }

  async probe(): Promise<void> {
    this.verifyFiles();
    await this.run((kv) =>
      kv.atomic().check(ALWAYS).delete(PROBE_KEY).commit()
    );
  }

  verifyFiles(): void {
    try {
      this.#connection.files?.verifyAll();
      this.#requireOpen();
    } catch (error) {
      throw this.#record(error);
    }
  }

  /**
   * Runs an operation whose result is acknowledged. Then verifies that the database is
   * in its place: SQLite writes to a deleted file without an error.
   * @throws {StoreError}
   */
  async run<Result>(
    operation: (kv: DenoKv) => Promise<Result>,
  ): Promise<Result> {
    try {
      this.#requireOpen();
      const result = await operation(this.#connection.kv);
      this.#requireOpen();
      this.#connection.files?.verifyDatabase();
      return result;
    } catch (error) {
      throw this.#record(error);
    }
  }

  /**
   * Runs an operation whose result is not acknowledged: an export saves what is
   * left of a store that is lost or corrupt.
   * @throws {StoreError}
   */
  async runUnverified<Result>(
    operation: (kv: DenoKv) => Promise<Result>,
  ): Promise<Result> {
    try {
      return await operation(this.#connection.kv);
    } catch (error) {
      throw this.#record(error);
    }
  }

  /**
   * Closes the store, unless it is lost: that one stays open until the process ends. If
   * only the log was replaced, SQLite would delete the one that is at its path now.
   */
  close(): void {
    try {
      this.verifyFiles();
    } catch {
      // A loss is recorded. Any other error may not keep the store open.
    }
    if (this.#endedBy?.kind !== "lost") this.#connection.kv.close();
  }

  #requireOpen(): void {
    if (this.#endedBy !== undefined) throw this.#endedBy;
  }

  /** Recognizes an error, and records it if it ends the store. A lost one stays lost. */
  #record(thrown: unknown): StoreError {
    const error = this.#connection.recognize(thrown);
    if (error.endsStore && this.#endedBy?.kind !== "lost") {
      this.#endedBy = error;
    }
    return error;
  }
}
