import type { NewPlant, Plant } from "../plant/plant.ts";
import type { StoreError } from "../store_error.ts";

/**
 * The result of a commit. `committed`: all of it is on disk. `exists`: at least
 * one id exists, and nothing was written, unless the store itself retried a
 * write that had landed. `locked`: nothing was written, retry.
 */
export type CommitResult = "committed" | "exists" | "locked";

/** A store, as a service uses it. */
export interface Store {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  /** Whether the store was created when it was opened. */
  readonly isNew: boolean;
  /** Size of the database file; `undefined` for a KV Connect server. */
  readonly databaseBytes: number | undefined;
  /**
   * Writes plants whose ids must be absent, all or none.
   * @throws {StoreError}
   */
  commit(plants: readonly NewPlant[]): Promise<CommitResult>;
  /**
   * Returns the plants of these ids that exist, and possibly those of other ids;
   * `null` if the value is not a plant of this service, or cannot be decoded.
   * @throws {StoreError}
   */
  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>>;
  /** Returns the problem of the files, or the damage that was found, if any. */
  checkFiles(): StoreError | undefined;
  /** Performs a no-op write; may never settle. @throws {StoreError} */
  probe(): Promise<void>;
}
