import type { Clock } from "../clock.ts";
import { COMMIT_CHARS_MAX, COMMIT_MS_MAX } from "../limits.ts";
import {
  countChars,
  isSamePlant,
  type NewPlant,
  type Plant,
} from "../plant/plant.ts";
import type { Store } from "./kv_store.ts";
import { pauseForLock } from "./retry.ts";
import { isOfKind, noAnswer, StoreError } from "./store_error.ts";

/**
 * The outcome of a create. `stored` and `replayed`: the plant is on disk.
 * `conflict`: the id is taken by a different plant. `failed`: the store failed or
 * timed out, which is reported; the commit may still land.
 */
export type Outcome = "stored" | "replayed" | "conflict" | "failed";

/** What the committer reports, after the creates of a commit have their outcomes. */
export interface CommitReports {
  /** A commit that started at this time has succeeded. */
  committed(startMs: number): void;
  /** A commit failed or timed out. */
  commitFailed(error: StoreError): void;
}

/** A request to create a plant. */
interface Create {
  readonly plant: Plant;
  readonly resolve: (outcome: Outcome) => void;
}

/**
 * The creates of one id that are in the same commit. A create that arrives during
 * the commit joins the next one, since the plant may have been removed.
 */
interface Write extends NewPlant {
  readonly arrivedMs: number;
  /** In order of arrival; the first has this plant. */
  readonly creates: Create[];
  /** Whether the creates have their outcomes. */
  isSettled: boolean;
}

/**
 * Group commit: creates that arrive while commits are in flight go into the
 * next one, together. There is no timer, so an idle store adds no latency. Every
 * create has an outcome, from {@link Committer.expire} if the store never answers.
 */
export class Committer {
  readonly #store: Store;
  readonly #reports: CommitReports;
  readonly #clock: Clock;
  readonly #pauseForLock: () => Promise<void>;
  /** The writes of the next commits, by id, in order of arrival. */
  readonly #queue = new Map<bigint, Write>();
  /** The batches of the commits in flight. */
  readonly #inFlight = new Set<readonly Write[]>();
  /** Whether the last batch had existing ids, so the next one reads first. */
  #expectsExisting = false;
  /** The lock of another process, if the last commit that ended met one. */
  #lock: StoreError | undefined;

  /** @param pause waits before a commit that met a lock is repeated */
  constructor(
    store: Store,
    reports: CommitReports,
    clock: Clock,
    pause = pauseForLock,
  ) {
    this.#store = store;
    this.#reports = reports;
    this.#clock = clock;
    this.#pauseForLock = pause;
  }

  /**
   * Stores a plant, or finds it stored. Never rejects. A create that joins a
   * queued one of its id has the deadline of that one.
   */
  create({ id, plant }: NewPlant): Promise<Outcome> {
    const arrivedMs = this.#clock();
    return new Promise((resolve) => {
      const create = { plant, resolve };
      const queued = this.#queue.get(id);
      if (queued !== undefined) {
        queued.creates.push(create);
        return;
      }
      const creates = [create];
      this.#queue.set(id, { id, plant, arrivedMs, creates, isSettled: false });
      this.#startCommits();
    });
  }

  /**
   * Starts commits for the queue. While a create depends on a commit in flight, the
   * next commit starts only with a full batch, because a commit has a high fixed
   * cost. A commit whose creates have all expired holds nothing back: it may never
   * end.
   */
  #startCommits(): void {
    const { plantsMax, inFlightMax } = this.#store.commitBounds;
    while (this.#queue.size > 0 && this.#inFlight.size < inFlightMax) {
      const isFull = this.#queue.size >= plantsMax;
      if (!isFull && this.#isPendingInFlight()) return;
      this.#commit(this.#takeBatch());
    }
  }

  /** Takes as many writes from the queue as fit one commit. */
  #takeBatch(): readonly Write[] {
    const batch: Write[] = [];
    let chars = 0;
    for (const write of this.#queue.values()) {
      chars += countChars(write.plant);
      if (chars > COMMIT_CHARS_MAX) break;
      this.#queue.delete(write.id);
      batch.push(write);
      if (batch.length === this.#store.commitBounds.plantsMax) break;
    }
    return batch;
  }

  /** Whether a create depends on a commit in flight. */
  #isPendingInFlight(): boolean {
    return this.#inFlight.values().some((batch) => batch.some(isPending));
  }

  /** Settles every write of a batch, and then starts the next commits. */
  async #commit(batch: readonly Write[]): Promise<void> {
    this.#inFlight.add(batch);
    try {
      let remaining = batch;
      let readsFirst = this.#expectsExisting;
      // Writes that expire leave the batch, so this loop ends.
      for (; remaining.length > 0; remaining = remaining.filter(isPending)) {
        try {
          if (readsFirst) {
            remaining = await this.#settleExisting(remaining);
            readsFirst = false;
            continue;
          }
          const startMs = this.#clock();
          readsFirst = await this.#store.commit(remaining) === "exists";
          this.#lock = undefined;
          if (readsFirst) continue;
          for (const write of remaining) this.#settleStored(write);
          this.#reports.committed(startMs);
          return;
        } catch (error) {
          this.#lock = isOfKind(error, "locked") ? error : undefined;
          if (this.#lock === undefined) throw error;
          await this.#pauseForLock();
        }
      }
    } catch (error) {
      for (const write of batch) this.#settle(write, () => "failed");
      if (!(error instanceof StoreError)) throw error;
      this.#reports.commitFailed(error);
    } finally {
      this.#inFlight.delete(batch);
      this.#startCommits();
    }
  }

  /** Settles a write whose plant is stored now. */
  #settleStored(write: Write): void {
    const [first] = write.creates;
    this.#settle(
      write,
      (it) => it === first ? "stored" : compare(it.plant, write.plant),
    );
  }

  /** Settles the writes whose ids exist, and returns the others. */
  async #settleExisting(
    writes: readonly Write[],
  ): Promise<readonly Write[]> {
    const found = await this.#store.read(writes.map(({ id }) => id));
    const absent = writes.filter((write) => {
      const stored = found.get(write.id);
      if (stored === undefined) return true;
      this.#settle(write, ({ plant }) => compare(plant, stored));
      return false;
    });
    this.#expectsExisting = absent.length < writes.length;
    return absent;
  }

  /** Gives the creates of a write their outcomes, unless they have expired. */
  #settle(
    write: Write,
    outcomeOf: (create: Create) => Outcome,
  ): void {
    if (write.isSettled) return;
    write.isSettled = true;
    for (const create of write.creates) create.resolve(outcomeOf(create));
  }

  /**
   * Fails the creates that have reached their deadline. Call it regularly. A commit
   * in flight may still land, which a repeated create then finds. Reports a failure
   * if creates fail, and as long as abandoned commits let none start.
   */
  expire(): void {
    const latestMs = this.#clock() - COMMIT_MS_MAX;
    const expired = [...this.#inFlight].flat().concat(...this.#queue.values())
      .filter((write) => write.arrivedMs <= latestMs && isPending(write));
    for (const write of expired) {
      this.#settle(write, () => "failed");
      // Another write of this id may be queued by now.
      if (this.#queue.get(write.id) === write) this.#queue.delete(write.id);
    }
    const { inFlightMax } = this.#store.commitBounds;
    const isStalled = this.#inFlight.size === inFlightMax &&
      !this.#isPendingInFlight();
    if (expired.length === 0 && !isStalled) return;
    // A commit whose creates have expired holds the queue back no longer.
    this.#startCommits();
    this.#reports.commitFailed(this.#lock ?? noAnswer(COMMIT_MS_MAX));
  }
}

function isPending({ isSettled }: Write): boolean {
  return !isSettled;
}

function compare(plant: Plant, stored: Plant | null): Outcome {
  return stored !== null && isSamePlant(plant, stored)
    ? "replayed"
    : "conflict";
}
