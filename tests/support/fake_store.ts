import assert from "node:assert/strict";
import type { Clock } from "../../src/clock.ts";
import { type CommitBounds, COMMITS_FILE } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import {
  type CommitReports,
  Committer,
  type Outcome,
} from "../../src/store/committer.ts";
import type { Store } from "../../src/store/kv_store.ts";
import { type StoreError, toStoreError } from "../../src/store/store_error.ts";

/** A commit that has no result until the test gives it one. */
interface PendingCommit {
  readonly plants: readonly NewPlant[];
  resolve(result: "committed" | "exists"): Promise<void>;
  fail(problem: string): Promise<void>;
}

/** A store in memory, with the bounds of a file, that does what a test says. */
export class FakeStore implements Store {
  databaseBytes: number | undefined;
  /** The operations so far, in order, with their ids. */
  readonly operations: (readonly ["commit" | "read", ...bigint[]])[] = [];
  /** The commits of a paused store. */
  readonly pending: PendingCommit[] = [];
  /** What is on disk; `null` for the value of another program. */
  readonly plants = new Map<bigint, Plant | null>();
  /** Every operation fails with this problem, if there is one. */
  problem: string | undefined;
  #isPaused = false;

  constructor(readonly commits: CommitBounds = COMMITS_FILE) {}

  /** From now on commits wait for {@link write} or {@link resume}. */
  pause(): this {
    this.#isPaused = true;
    return this;
  }

  resume(): void {
    this.#isPaused = false;
    while (this.pending.length > 0) this.write();
  }

  commit(plants: readonly NewPlant[]): Promise<"committed" | "exists"> {
    const batch = plants.map(({ id, plant }) => ({ id, plant }));
    this.operations.push(["commit", ...batch.map(({ id }) => id)]);
    const { promise, resolve, reject } = Promise.withResolvers<
      "committed" | "exists"
    >();
    this.pending.push({
      plants: batch,
      resolve: (result) => {
        resolve(result);
        return settled();
      },
      fail: (problem) => {
        reject(toStoreError(new TypeError(problem)));
        return settled();
      },
    });
    if (!this.#isPaused) this.write();
    return promise;
  }

  /** Reads everything that is stored, so more than the ids. */
  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    this.operations.push(["read", ...ids]);
    await this.probe();
    return new Map(this.plants);
  }

  probe(): Promise<void> {
    return this.problem === undefined
      ? Promise.resolve()
      : Promise.reject(toStoreError(new TypeError(this.problem)));
  }

  checkFiles(): void {}

  /** Returns the oldest pending commit, which is then no longer pending. */
  next(): PendingCommit {
    const commit = this.pending.shift();
    assert.ok(commit !== undefined, "expected a commit, got none");
    return commit;
  }

  /** Carries out the oldest pending commit as a store does. */
  write(): Promise<void> {
    const { plants, resolve, fail } = this.next();
    if (this.problem !== undefined) return fail(this.problem);
    const exists = plants.some(({ id }) => this.plants.has(id));
    if (!exists) {
      for (const { id, plant } of plants) this.plants.set(id, plant);
    }
    return resolve(exists ? "exists" : "committed");
  }

  /** Carries out commits until none is pending. */
  async writeAll(): Promise<void> {
    while (this.pending.length > 0) await this.write();
  }

  /** The number of plants of each commit so far. */
  get batches(): number[] {
    const commits = this.operations.filter(([kind]) => kind === "commit");
    return commits.map(([, ...ids]) => ids.length);
  }
}

/** A clock that the test advances. */
export class FakeClock {
  now = 0;
  readonly read: Clock = () => this.now;
}

/** Records what the committer reports. */
class RecordedReports implements CommitReports {
  /** The problems, and the number of plants of each commit. */
  readonly reports: (string | number)[] = [];
  /** The time of each commit. */
  readonly seconds: number[] = [];

  committed(seconds: number, plants: number): void {
    this.reports.push(plants);
    this.seconds.push(seconds);
  }

  commitFailed({ message }: StoreError): void {
    this.reports.push(message);
  }
}

/** The outcome of a create, `undefined` while it has none. */
interface Created {
  readonly outcome: Outcome | undefined;
}

/** Returns a committer on a paused store, with a clock that the test advances. */
export function setUpCommitter(
  { plantsMax = 10, inFlightMax = 1 }: Partial<CommitBounds> = {},
) {
  const store = new FakeStore({ plantsMax, inFlightMax }).pause();
  const clock = new FakeClock();
  const recorded = new RecordedReports();
  const committer = new Committer(store, recorded, clock.read);
  function create(
    id: number | bigint,
    plant: Plant = { name: "Monstera" },
  ): Created {
    const created: { outcome: Outcome | undefined } = { outcome: undefined };
    committer.create({ id: BigInt(id), plant }).then((outcome) => {
      created.outcome = outcome;
    });
    return created;
  }
  return { store, clock, recorded, create };
}

/** Returns the outcomes of creates. */
export function outcomesOf(creates: readonly Created[]) {
  return creates.map(({ outcome }) => outcome);
}

/** Waits until promises that depend on nothing else have settled. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await undefined;
}
