import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { WRITE_MS_MAX } from "../limits.ts";
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
 * Maximum characters of the plants in one commit. A character takes at most two
 * bytes. The keys of a plant, and what V8 stores around its strings, take at most
 * 128. So 100 plants take at most 812,800 bytes, and Deno KV allows 819,200 in one
 * write.
 */
export const COMMIT_CHARS_MAX = 400_000;

/**
 * The outcome of a create. `stored` and `replayed`: the plant is on disk.
 * `conflict`: the id is taken by a different plant. `failed`: the store failed or
 * timed out; the commit may still land.
 */
export type Outcome = "stored" | "replayed" | "conflict" | "failed";

/** Called after the creates of a commit have their outcomes. */
export interface CommitListener {
  /** A commit that started at this time has succeeded. */
  committed(startMs: number): void;
  /** A commit failed or timed out. */
  commitFailed(error: StoreError): void;
}

/** What group commit needs. */
interface CommitterOptions {
  readonly store: Store;
  readonly listener: CommitListener;
  readonly clock?: Clock;
  /** Waits before a commit that met a lock is repeated. */
  readonly pause?: (() => Promise<void>) | undefined;
}

/** A request to create a plant. */
interface Create {
  readonly plant: Plant;
  readonly resolve: (outcome: Outcome) => void;
}

/**
 * The creates of one id that are in the same commit. A create never joins a commit
 * that is running: the plant may be removed after that commit, and the create must
 * then store it again.
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
  readonly #listener: CommitListener;
  readonly #clock: Clock;
  readonly #pause: () => Promise<void>;
  /** The writes of the next commits, by id, in order of arrival. */
  readonly #queue = new Map<bigint, Write>();
  /** The batches of the commits in flight. */
  readonly #inFlight = new Set<readonly Write[]>();
  /** Whether the last batch had existing ids, so the next one reads first. */
  #expectsExisting = false;

  constructor(
    { store, listener, clock = SYSTEM_CLOCK, pause = pauseForLock }:
      CommitterOptions,
  ) {
    this.#store = store;
    this.#listener = listener;
    this.#clock = clock;
    this.#pause = pause;
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
   * Starts commits for the queue. A commit has a high fixed cost. So while creates wait
   * for a commit in flight, the next one starts only when `plantsMax` writes are queued,
   * whatever their size.
   */
  #startCommits(): void {
    const { plantsMax } = this.#store.commitBounds;
    while (this.#queue.size > 0 && this.#hasRoom()) {
      if (this.#queue.size < plantsMax && this.#isAwaited()) return;
      this.#process(this.#takeBatch());
    }
  }

  /**
   * Takes as many writes from the queue as fit one commit, in number and in size. One
   * always fits.
   */
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

  /** Whether a further commit may be in flight. */
  #hasRoom(): boolean {
    return this.#inFlight.size < this.#store.commitBounds.inFlightMax;
  }

  /**
   * Whether creates wait for a commit in flight. A commit whose creates have all expired
   * may never end, so it holds back no other.
   */
  #isAwaited(): boolean {
    return this.#inFlight.values().some((batch) => batch.some(isPending));
  }

  /** Gives every write of a batch an outcome, and then starts the next commits. */
  async #process(batch: readonly Write[]): Promise<void> {
    this.#inFlight.add(batch);
    try {
      await this.#settleAll(batch);
    } catch (error) {
      for (const write of batch) this.#settle(write, () => "failed");
      if (!(error instanceof StoreError)) throw error;
      this.#listener.commitFailed(error);
    } finally {
      this.#inFlight.delete(batch);
      this.#startCommits();
    }
  }

  /**
   * Commits and reads the pending writes of a batch by turns until there are none: a
   * commit writes nothing if an id exists, and a read settles the writes whose ids do.
   */
  async #settleAll(batch: readonly Write[]): Promise<void> {
    let mustRead = this.#expectsExisting;
    for (;;) {
      // Without those that have expired meanwhile.
      const writes = batch.filter(isPending);
      if (writes.length === 0) return;
      try {
        if (mustRead) await this.#read(writes);
        else await this.#commit(writes);
        mustRead = !mustRead;
      } catch (error) {
        // A lock passes. Any other error fails the batch.
        if (!isOfKind(error, "locked")) throw error;
        await this.#pause();
      }
    }
  }

  /** Commits writes, and settles them unless one of their ids exists. */
  async #commit(writes: readonly Write[]): Promise<void> {
    const startMs = this.#clock();
    if (await this.#store.commit(writes) === "exists") return;
    for (const write of writes) {
      const { plant, creates: [first] } = write;
      this.#settle(
        write,
        (it) => it === first ? "stored" : compare(it.plant, plant),
      );
    }
    this.#listener.committed(startMs);
  }

  /** Reads the ids of writes, and settles the writes whose ids exist. */
  async #read(writes: readonly Write[]): Promise<void> {
    const found = await this.#store.read(writes.map(({ id }) => id));
    this.#expectsExisting = false;
    for (const write of writes) {
      const stored = found.get(write.id);
      if (stored === undefined) continue;
      this.#expectsExisting = true;
      this.#settle(write, ({ plant }) => compare(plant, stored));
    }
  }

  /** Gives the creates of a write their outcomes, unless they have expired. */
  #settle(write: Write, outcomeOf: (create: Create) => Outcome): void {
    if (write.isSettled) return;
    write.isSettled = true;
    for (const create of write.creates) create.resolve(outcomeOf(create));
  }

  /**
   * Fails the creates that have reached their deadline. Call it regularly. A commit
   * in flight may still land. If it does, a repeated create finds the plant stored.
   */
  expire(): void {
    const latestMs = this.#clock() - WRITE_MS_MAX;
    const writes = [...this.#inFlight].flat().concat(...this.#queue.values());
    const expired = writes.filter(isPending)
      .filter(({ arrivedMs }) => arrivedMs <= latestMs);
    for (const write of expired) {
      this.#settle(write, () => "failed");
      // A write in flight is not in the queue, but another one of its id may be.
      if (this.#queue.get(write.id) === write) this.#queue.delete(write.id);
    }
    this.#startCommits();
    // All places are taken by commits for which no create waits any more. This is
    // reported at every sweep until one of them ends.
    const isStalled = !this.#hasRoom() && !this.#isAwaited();
    if (expired.length > 0 || isStalled) {
      this.#listener.commitFailed(noAnswer(WRITE_MS_MAX));
    }
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
