import type { Clock } from "../clock.ts";
import { COMMIT_CHARS_MAX, COMMIT_MS_MAX } from "../limits.ts";
import {
  countChars,
  isSamePlant,
  type NewPlant,
  type Plant,
} from "../plant/plant.ts";
import type { Store } from "./kv_store.ts";
import { noAnswer, StoreError } from "./store_error.ts";

/**
 * The outcome of a create. `stored` and `replayed`: the plant is on disk.
 * `conflict`: the id is taken by a different plant. `failed`: the store failed or
 * timed out, which is reported; the commit may still land.
 */
export type Outcome = "stored" | "replayed" | "conflict" | "failed";

/** What the committer reports, after the creates of a commit are answered. */
export interface CommitReports {
  /** A commit succeeded in so many seconds. */
  committed(seconds: number): void;
  /** A commit failed or timed out. */
  commitFailed(error: StoreError): void;
}

/** A request to create a plant. */
interface Create {
  readonly plant: Plant;
  readonly answer: (outcome: Outcome) => void;
}

/**
 * The creates of one id that wait together for one commit. A create that arrives
 * during the commit waits for the next one, since the plant may have been removed.
 */
interface Write extends NewPlant {
  readonly arrivedMs: number;
  /** In order of arrival; the first has this plant. Empty once answered. */
  creates: Create[];
}

/**
 * Group commit: creates that arrive while commits are in flight go into the
 * next one, together. There is no timer, so an idle store adds no latency.
 * Every create is answered, by {@link expire} if the store does not respond.
 */
export class Committer {
  readonly #store: Store;
  readonly #reports: CommitReports;
  readonly #clock: Clock;
  /** The writes that wait for a commit to start, by id, in order of arrival. */
  readonly #queue = new Map<bigint, Write>();
  /** The batches of the commits in flight. */
  readonly #inFlight = new Set<readonly Write[]>();
  /** Whether the last batch had existing ids, so the next one reads first. */
  #expectsExisting = false;

  constructor(store: Store, reports: CommitReports, clock: Clock) {
    this.#store = store;
    this.#reports = reports;
    this.#clock = clock;
  }

  /**
   * Stores a plant, or finds it stored. Never rejects. A create that joins a
   * queued one of its id has the deadline of that one.
   */
  create({ id, plant }: NewPlant): Promise<Outcome> {
    const arrivedMs = this.#clock();
    return new Promise((answer) => {
      const create = { plant, answer };
      const queued = this.#queue.get(id);
      if (queued !== undefined) {
        queued.creates.push(create);
        return;
      }
      this.#queue.set(id, { id, plant, arrivedMs, creates: [create] });
      this.#startCommits();
    });
  }

  /**
   * Fails the creates that have reached their deadline. Call it regularly. A
   * commit in flight may still land, which a repeated create then finds. If commits
   * without creates occupy every slot, it reports a failure, too.
   */
  expire(): void {
    const latestMs = this.#clock() - COMMIT_MS_MAX;
    const expired = [...this.#inFlight].flat().concat(...this.#queue.values())
      .filter((write) => write.arrivedMs <= latestMs && isUnanswered(write));
    for (const write of expired) {
      this.#answer(write, () => "failed");
      // Another write of this id may be queued by now.
      if (this.#queue.get(write.id) === write) this.#queue.delete(write.id);
    }
    const isStalled = !this.#isAwaitingCommit() &&
      this.#inFlight.size === this.#store.commitBounds.inFlightMax;
    if (expired.length === 0 && !isStalled) return;
    this.#startCommits();
    this.#reports.commitFailed(noAnswer(COMMIT_MS_MAX));
  }

  /**
   * Starts commits for the queue. While a commit is in flight, the next starts
   * only when `plantsMax` creates wait, because a commit has a high fixed cost. A
   * commit whose creates have expired does not count: it may never end.
   */
  #startCommits(): void {
    const { plantsMax, inFlightMax } = this.#store.commitBounds;
    while (this.#queue.size > 0 && this.#inFlight.size < inFlightMax) {
      const isFull = this.#queue.size >= plantsMax;
      if (!isFull && this.#isAwaitingCommit()) return;
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

  /** Whether a create waits for a commit in flight. */
  #isAwaitingCommit(): boolean {
    return this.#inFlight.values().some((batch) => batch.some(isUnanswered));
  }

  /** Answers every create of a batch, and then starts the next commits. */
  async #commit(batch: readonly Write[]): Promise<void> {
    this.#inFlight.add(batch);
    try {
      let remaining = batch;
      if (this.#expectsExisting) {
        remaining = await this.#settleExisting(remaining);
      }
      for (;;) {
        // Ends at the latest when expire() has answered all of them.
        remaining = remaining.filter(isUnanswered);
        if (remaining.length === 0) return;
        const startMs = this.#clock();
        const result = await this.#store.commit(remaining);
        if (result === "committed") {
          const seconds = (this.#clock() - startMs) / 1000;
          for (const write of remaining) this.#answerStored(write);
          this.#reports.committed(seconds);
          return;
        }
        remaining = await this.#settleExisting(remaining);
      }
    } catch (error) {
      for (const write of batch) this.#answer(write, () => "failed");
      if (!(error instanceof StoreError)) throw error;
      this.#reports.commitFailed(error);
    } finally {
      this.#inFlight.delete(batch);
      this.#startCommits();
    }
  }

  /** Answers the creates of a write whose plant is stored now. */
  #answerStored(write: Write): void {
    const [first] = write.creates;
    this.#answer(
      write,
      (it) => it === first ? "stored" : compare(it.plant, write.plant),
    );
  }

  /** Answers the creates whose ids exist, and returns the other writes. */
  async #settleExisting(
    writes: readonly Write[],
  ): Promise<readonly Write[]> {
    const found = await this.#store.read(writes.map(({ id }) => id));
    const absent = writes.filter((write) => {
      const stored = found.get(write.id);
      if (stored === undefined) return true;
      this.#answer(write, ({ plant }) => compare(plant, stored));
      return false;
    });
    this.#expectsExisting = absent.length < writes.length;
    return absent;
  }

  /** Answers the creates of a write, unless they are answered already. */
  #answer(
    write: Write,
    outcomeOf: (create: Create) => Outcome,
  ): void {
    for (const create of write.creates) create.answer(outcomeOf(create));
    write.creates = [];
  }
}

function isUnanswered({ creates }: Write): boolean {
  return creates.length > 0;
}

function compare(plant: Plant, stored: Plant | null): Outcome {
  return stored !== null && isSamePlant(plant, stored)
    ? "replayed"
    : "conflict";
}
