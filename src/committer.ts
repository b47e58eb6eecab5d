import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "./faults.ts";
import {
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
} from "./limits.ts";
import type { NewPlant, Plant } from "./plant.ts";

/**
 * What became of a create. `stored` and `replayed`: the plant is on disk.
 * `conflict`: the id names another plant. `queue full`: not tried. `failed`:
 * the store failed or did not take it in time; it may still land.
 */
export type Outcome =
  | "stored"
  | "replayed"
  | "conflict"
  | "queue full"
  | "failed";

/**
 * What a commit came to. `committed`: all of it is on disk. `exists`: at least
 * one id exists, and nothing was written, unless the store repeated a write of
 * its own that had landed. `busy`: nothing was written, try again.
 */
export type CommitResult = "committed" | "exists" | "busy";

/** The store as the committer needs it. */
export interface CommitStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  /** Writes plants whose ids must be absent, all or none; throws if it fails. */
  commit(plants: readonly NewPlant[]): Promise<CommitResult>;
  /**
   * What stands under each id: a plant, `undefined` for nothing, or `null` for
   * something that is no plant of ours.
   */
  read(ids: readonly bigint[]): Promise<(Plant | null | undefined)[]>;
  /** What is wrong with it at a look from outside, `undefined` for nothing. */
  look(): string | undefined;
}

/** Time as the committer sees it; a simulation brings its own. */
export interface Clock {
  nowMs(): number;
  sleep(ms: number): Promise<void>;
}

const CLOCK: Clock = {
  nowMs: () => performance.now(),
  sleep: (ms) => sleep(ms),
};

/** How long a commit rests when another process holds the store. */
const BUSY_MS_MAX = 20;

/** A create that waits for its outcome. */
interface Create extends NewPlant {
  readonly deadlineMs: number;
  /** `undefined` once the create is answered. */
  answer: ((outcome: Outcome) => void) | undefined;
  /** Later creates of the same id: they wait for the outcome of this one. */
  followers: Create[] | undefined;
}

/**
 * Group commit: creates that arrive while commits are under way go into the
 * next one, together. No timer, so no latency is added when the store is idle.
 * Every create is answered, by {@link sweep} if the store does not.
 */
export class Committer {
  readonly #store: CommitStore;
  readonly #report: (problem: string | undefined) => void;
  readonly #clock: Clock;
  /** The first create of each id that is queued or in a commit. */
  readonly #byId = new Map<bigint, Create>();
  #queue: Create[] = [];
  #inFlight = 0;
  #waiting = 0;
  /** What was reported last, `undefined` while the store is well. */
  #problem: string | undefined;
  /** What the last look at the store found wrong. */
  #found: string | undefined;

  /**
   * @param report is told what is wrong when the store begins to fail, or what
   * else a look finds wrong with it, and `undefined` when it works again
   */
  constructor(
    store: CommitStore,
    report: (problem: string | undefined) => void,
    clock: Clock = CLOCK,
  ) {
    this.#store = store;
    this.#report = report;
    this.#clock = clock;
  }

  /** Creates that are not answered yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether something is known to be wrong with the store. */
  get isFailing(): boolean {
    return this.#problem !== undefined;
  }

  /** Creates a plant, or finds that it is there already. Never rejects. */
  create({ id, plant }: NewPlant): Promise<Outcome> {
    if (this.#waiting >= CREATES_WAITING_MAX) {
      return Promise.resolve("queue full");
    }
    this.#waiting++;
    return new Promise((answer) => {
      const deadlineMs = this.#clock.nowMs() + COMMIT_MS_MAX;
      this.#enqueue({ id, plant, deadlineMs, answer, followers: undefined });
    });
  }

  /**
   * Answers `failed` to every create whose time is up, and looks at the store,
   * so that what is wrong with it is known before the next create.
   */
  sweep(): void {
    this.#giveUp();
    this.#look();
  }

  #giveUp(): void {
    const nowMs = this.#clock.nowMs();
    let expired = false;
    for (const leader of this.#byId.values()) {
      if (leader.answer !== undefined && leader.deadlineMs <= nowMs) {
        this.#answer(leader, "failed");
        expired = true;
      }
      leader.followers = leader.followers?.filter((follower) => {
        if (follower.deadlineMs > nowMs) return true;
        this.#answer(follower, "failed");
        expired = true;
        return false;
      });
    }
    if (!expired) return;
    this.#failing(`no answer within ${COMMIT_MS_MAX / 1000} s`);
    const queue = this.#queue;
    this.#queue = [];
    for (const create of queue) {
      if (create.answer === undefined) this.#release(create);
      else this.#queue.push(create);
    }
  }

  #look(): void {
    const problem = this.#store.look();
    if (problem === this.#found) return;
    this.#found = problem;
    if (problem === undefined) this.#well();
    else if (problem !== this.#problem) this.#say(problem);
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
   * Commits what waits, at once where a commit may begin. The last place is
   * kept for a full batch: a commit costs the store much, and a plant little.
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
      bytes += commitBytesMax(create.plant);
      if (bytes > COMMIT_BYTES_MAX) break;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  /**
   * Brings every create of a batch to an outcome, if the store answers. Never
   * rejects.
   */
  async #commit(batch: Create[]): Promise<void> {
    this.#inFlight++;
    let open = batch;
    try {
      while (open.length > 0) {
        const result = await this.#store.commit(open);
        if (result === "committed") {
          this.#well();
          for (const create of open) this.#settle(create, create.plant, true);
          break;
        }
        if (result === "exists") open = await this.#settleExisting(open);
        else await this.#clock.sleep(Math.random() * BUSY_MS_MAX);
        open = open.filter((create) => {
          if (create.answer === undefined) this.#release(create);
          return create.answer !== undefined;
        });
      }
    } catch (error) {
      this.#failing(messageOf(error));
      // What follows a create that failed is tried for itself.
      for (const create of open) {
        this.#answer(create, "failed");
        this.#release(create);
      }
    }
    this.#inFlight--;
    this.#startCommits();
  }

  /** Settles the creates whose ids exist, and returns the others. */
  async #settleExisting(creates: Create[]): Promise<Create[]> {
    const found = await this.#store.read(creates.map((create) => create.id));
    return creates.filter((create, i) => {
      const stored = found[i];
      if (stored === undefined) return true;
      this.#settle(create, stored, false);
      return false;
    });
  }

  /** Answers a create, and all that follow it, from what is now stored. */
  #settle(create: Create, stored: Plant | null, isNew: boolean): void {
    this.#byId.delete(create.id);
    this.#answer(create, isNew ? "stored" : compare(create.plant, stored));
    for (const follower of create.followers ?? []) {
      this.#answer(follower, compare(follower.plant, stored));
    }
  }

  /** Lets go of an answered create; those that follow it are tried anew. */
  #release(create: Create): void {
    this.#byId.delete(create.id);
    for (const follower of create.followers ?? []) this.#enqueue(follower);
  }

  #failing(problem: string): void {
    if (this.#problem === undefined) this.#say(problem);
  }

  #well(): void {
    if (this.#problem !== undefined) this.#say(undefined);
  }

  #say(problem: string | undefined): void {
    this.#problem = problem;
    this.#report(problem);
  }

  #answer(create: Create, outcome: Outcome): void {
    if (create.answer === undefined) return;
    create.answer(outcome);
    create.answer = undefined;
    this.#waiting--;
  }
}

function compare(plant: Plant, stored: Plant | null): Outcome {
  return stored !== null && plant.name === stored.name &&
      plant.tag === stored.tag
    ? "replayed"
    : "conflict";
}

/**
 * The most bytes that a plant adds to a commit, as Deno KV counts them: the
 * key three times, and its value at two bytes a character.
 */
export function commitBytesMax({ name, tag }: Plant): number {
  return 128 + 2 * (name.length + (tag?.length ?? 0));
}
