import { setTimeout as sleep } from "node:timers/promises";
import {
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  LOCK_RETRY_MS_MAX,
  QUEUE_MS_MAX,
} from "../limits.ts";
import { errorMessage } from "../messages.ts";
import {
  countChars,
  isSamePlant,
  type NewPlant,
  type Plant,
} from "../plant/plant.ts";
import { RecentPlants } from "./recent_plants.ts";

/**
 * The outcome of a create. `stored` and `unchanged`: the plant is on disk.
 * `conflict`: the id is taken by a different plant. `queue_full`: not tried.
 * `failed`: the store failed or timed out; the commit may still land.
 */
export type Outcome =
  | "stored"
  | "unchanged"
  | "conflict"
  | "queue_full"
  | "failed";

/**
 * The result of a commit. `committed`: all of it is on disk. `exists`: at least
 * one id exists, and nothing was written, unless the store itself retried a
 * write that had landed. `busy`: nothing was written, retry.
 */
export type CommitResult = "committed" | "exists" | "busy";

/** The part of the store that the committer uses. */
export interface CommitStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  /** Writes plants whose ids must be absent, all or none; rejects on failure. */
  commit(plants: readonly NewPlant[]): Promise<CommitResult>;
  /**
   * Reads the ids that exist, and possibly others: a plant, or `null` if the
   * value is not a plant of this service. Rejects on failure.
   */
  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>>;
}

/** The health of the store: commits report it, and replays depend on it. */
export interface CommitHealth {
  /** Returns whether the store has no known problem now. */
  isHealthy(): boolean;
  /** Reports that a commit failed or timed out. */
  failed(problem: string): void;
  /** Reports that a commit succeeded. */
  succeeded(): void;
}

/** The clock of the committer; a simulation provides its own. */
export interface Clock {
  nowMs(): number;
  sleep(ms: number): Promise<void>;
}

const SYSTEM_CLOCK: Clock = {
  nowMs: () => performance.now(),
  sleep: (ms) => sleep(ms),
};

/** Options of a committer; the defaults are those of the service. */
export interface CommitterOptions {
  /**
   * Age of the oldest queued create above which new ones are refused. An
   * import bounds its queue itself and waits instead.
   */
  readonly queueMsMax?: number;
  readonly clock?: Clock;
  /** The plants kept in memory; a simulation provides a smaller set. */
  readonly recent?: RecentPlants;
}

/** A create that waits for its outcome. */
interface Create extends NewPlant {
  readonly arrivedMs: number;
  /** `undefined` once the create is answered. */
  answer: ((outcome: Outcome) => void) | undefined;
  /** Later creates of the same id, which wait for the outcome of this one. */
  followers: Create[] | undefined;
}

/**
 * Group commit: creates that arrive while commits are in flight go into the
 * next one, together. There is no timer, so an idle store adds no latency.
 * Every create is answered, by {@link expire} if the store does not respond.
 */
export class Committer {
  readonly #store: CommitStore;
  readonly #health: CommitHealth;
  readonly #clock: Clock;
  readonly #queueMsMax: number;
  /** The first create of each id that is queued or in a commit. */
  readonly #byId = new Map<bigint, Create>();
  readonly #recent: RecentPlants;
  #queue: Create[] = [];
  #inFlight = 0;
  #waiting = 0;
  /** When a commit last started or ended. */
  #progressMs = 0;
  /** Whether the last batch had existing ids, so the next one reads first. */
  #expectsExisting = false;

  constructor(
    store: CommitStore,
    health: CommitHealth,
    {
      queueMsMax = QUEUE_MS_MAX,
      clock = SYSTEM_CLOCK,
      recent = new RecentPlants(),
    }: CommitterOptions = {},
  ) {
    this.#store = store;
    this.#health = health;
    this.#clock = clock;
    this.#queueMsMax = queueMsMax;
    this.#recent = recent;
  }

  /** Creates without an outcome. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Stores a plant, or finds it stored. Never rejects. */
  create(newPlant: NewPlant): Promise<Outcome> {
    const isReplay = this.#recent.matches(newPlant);
    if (isReplay !== undefined && this.#health.isHealthy()) {
      return Promise.resolve(isReplay ? "unchanged" : "conflict");
    }
    const arrivedMs = this.#clock.nowMs();
    if (this.#isQueueFull(arrivedMs)) return Promise.resolve("queue_full");
    this.#waiting++;
    return new Promise((answer) => {
      const { id, plant } = newPlant;
      this.#enqueue({ id, plant, arrivedMs, answer, followers: undefined });
    });
  }

  /** Fails every create that has reached its deadline. Call it regularly. */
  expire(): void {
    const latestMs = this.#clock.nowMs() - COMMIT_MS_MAX;
    let hasExpired = false;
    for (const leader of this.#byId.values()) {
      if (leader.answer !== undefined && leader.arrivedMs <= latestMs) {
        this.#answer(leader, "failed");
        hasExpired = true;
      }
      leader.followers = leader.followers?.filter((follower) => {
        if (follower.arrivedMs > latestMs) return true;
        this.#answer(follower, "failed");
        hasExpired = true;
        return false;
      });
    }
    if (!hasExpired) return;
    this.#health.failed(`no answer within ${COMMIT_MS_MAX / 1000} s`);
    const queue = this.#queue;
    this.#queue = [];
    for (const create of queue) {
      if (create.answer === undefined) this.#release(create);
      else this.#queue.push(create);
    }
  }

  /**
   * Returns whether a new create would wait too long: too many are waiting, the
   * oldest queued one has waited too long, or no commit makes progress.
   */
  #isQueueFull(nowMs: number): boolean {
    const { commitsInFlightMax } = this.#store;
    const oldestMs = this.#queue[0]?.arrivedMs ?? nowMs;
    return this.#waiting >= CREATES_WAITING_MAX ||
      nowMs - oldestMs > this.#queueMsMax ||
      (this.#inFlight > 0 && this.#inFlight >= commitsInFlightMax - 1 &&
        nowMs - this.#progressMs > this.#queueMsMax);
  }

  #enqueue(create: Create): void {
    const leader = this.#byId.get(create.id);
    if (leader !== undefined) {
      (leader.followers ??= []).push(create);
      return;
    }
    this.#byId.set(create.id, create);
    this.#queue.push(create);
    this.#startCommits();
  }

  /**
   * Starts commits for the queue while more may be in flight. The last place is
   * reserved for a full batch: a commit is expensive, a plant in it is cheap.
   */
  #startCommits(): void {
    const { commitPlantsMax, commitsInFlightMax } = this.#store;
    while (
      this.#queue.length > 0 &&
      (this.#inFlight === 0 || this.#inFlight < commitsInFlightMax - 1 ||
        (this.#inFlight < commitsInFlightMax &&
          this.#queue.length >= commitPlantsMax))
    ) this.#commit(this.#nextBatch());
  }

  #nextBatch(): Create[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#store.commitPlantsMax) {
      const create = this.#queue[count];
      if (create === undefined) break;
      bytes += commitBytes(create.plant);
      if (bytes > COMMIT_BYTES_MAX) break;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  /** Settles every create of a batch. Never rejects. */
  async #commit(batch: Create[]): Promise<void> {
    this.#inFlight++;
    this.#progressMs = this.#clock.nowMs();
    let open = batch;
    try {
      if (this.#expectsExisting) {
        open = this.#withoutExpired(await this.#settleExisting(open));
      }
      while (open.length > 0) {
        const result = await this.#store.commit(open);
        if (result === "committed") {
          this.#health.succeeded();
          for (const create of open) {
            this.#answer(create, "stored");
            this.#settle(create, create.plant);
          }
          break;
        }
        if (result === "exists") open = await this.#settleExisting(open);
        else await this.#clock.sleep(Math.random() * LOCK_RETRY_MS_MAX);
        open = this.#withoutExpired(open);
      }
    } catch (error) {
      this.#health.failed(errorMessage(error));
      // The followers of a failed create are retried on their own.
      for (const create of open) {
        this.#answer(create, "failed");
        this.#release(create);
      }
    }
    this.#inFlight--;
    this.#progressMs = this.#clock.nowMs();
    this.#startCommits();
  }

  /** Settles the creates whose ids exist, and returns the others. */
  async #settleExisting(creates: Create[]): Promise<Create[]> {
    const found = await this.#store.read(creates.map(({ id }) => id));
    const absent = creates.filter((create) => {
      const stored = found.get(create.id);
      if (stored === undefined) return true;
      this.#settle(create, stored);
      return false;
    });
    this.#expectsExisting = absent.length < creates.length;
    return absent;
  }

  /** Answers a create and its followers by comparing them with the stored value. */
  #settle(create: Create, stored: Plant | null): void {
    this.#byId.delete(create.id);
    if (stored !== null) this.#recent.add(create.id, stored);
    this.#answer(create, compare(create.plant, stored));
    for (const follower of create.followers ?? []) {
      this.#answer(follower, compare(follower.plant, stored));
    }
  }

  /** Releases the creates that {@link expire} has failed; returns the others. */
  #withoutExpired(creates: Create[]): Create[] {
    return creates.filter((create) => {
      if (create.answer !== undefined) return true;
      this.#release(create);
      return false;
    });
  }

  /** Removes an answered create, and enqueues its followers. */
  #release(create: Create): void {
    this.#byId.delete(create.id);
    for (const follower of create.followers ?? []) this.#enqueue(follower);
  }

  /** Answers a create, unless it is already answered. */
  #answer(create: Create, outcome: Outcome): void {
    if (create.answer === undefined) return;
    create.answer(outcome);
    create.answer = undefined;
    this.#waiting--;
  }
}

function compare(plant: Plant, stored: Plant | null): Outcome {
  return stored !== null && isSamePlant(plant, stored)
    ? "unchanged"
    : "conflict";
}

/**
 * Returns an upper estimate of the bytes that a plant adds to a commit, as Deno
 * KV counts them: the key three times, and two bytes for each character.
 */
export function commitBytes(plant: Plant): number {
  return 128 + 2 * countChars(plant);
}
