/** The plants of a lost store in a file. */
export interface SavedPlants {
  readonly path: string;
  readonly plants: number;
  /** Number of entries that are not plants of this service. */
  readonly foreign: number;
  /** Why the plants after the last one could not be read, if they could not. */
  readonly damage: string | undefined;
  /** Why the directory could not be synced, if it could not. */
  readonly unsynced: string | undefined;
}

/**
 * What happens to a store. The parts that see it call these methods, and
 * `service.ts` connects them to what follows: metrics, health and log.
 */
export interface Reports {
  /** A commit succeeded in so many seconds and stored so many plants. */
  committed(seconds: number, plants: number): void;
  /** A commit failed or timed out. */
  commitFailed(problem: string): void;
  /** The store has started to fail. */
  storeFailing(problem: string): void;
  /** The store works again. */
  storeRecovered(): void;
  /** The plants of a lost store are saved. */
  plantsSaved(saved: SavedPlants): void;
  plantsNotSaved(path: string, problem: string): void;
}
