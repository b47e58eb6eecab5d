import assert from "node:assert/strict";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import type { CommitBounds, Store } from "../../src/store/kv_store.ts";
import { COMMITS_FILE } from "../../src/store/open.ts";
import { toStoreError } from "../../src/store/store_error.ts";
import { settled } from "./waiting.ts";

/** A store in memory, with the bounds of a file, that does what a test says. */
export class FakeStore implements Store {
  databaseBytes: number | undefined;
  /** The operations so far, in order, with their ids. */
  readonly operations: (readonly ["commit" | "read", ...bigint[]])[] = [];
  /** The commits of a paused store: a call lets one continue. */
  readonly pending: (() => void)[] = [];
  /** What is on disk; `null` for the value of another program. */
  readonly plants = new Map<bigint, Plant | null>();
  /** Every operation fails with this problem, if there is one. */
  problem: string | undefined;
  #isPaused = false;

  constructor(readonly commitBounds: CommitBounds = COMMITS_FILE) {}

  /** From now on commits wait for {@link finishCommit} or {@link resume}. */
  pause(): this {
    this.#isPaused = true;
    return this;
  }

  resume(): void {
    this.#isPaused = false;
    while (this.pending.length > 0) this.#carryOut();
  }

  async commit(plants: readonly NewPlant[]): Promise<"committed" | "exists"> {
    this.operations.push(["commit", ...plants.map(({ id }) => id)]);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.pending.push(resolve);
    if (!this.#isPaused) this.#carryOut();
    await promise;
    this.#failIfTold();
    if (plants.some(({ id }) => this.plants.has(id))) return "exists";
    for (const { id, plant } of plants) this.plants.set(id, plant);
    return "committed";
  }

  /** Reads everything that is stored, so more than the ids. */
  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    this.operations.push(["read", ...ids]);
    await undefined;
    this.#failIfTold();
    return new Map(this.plants);
  }

  async probe(): Promise<void> {
    await undefined;
    this.#failIfTold();
  }

  verifyFiles(): void {}

  close(): void {}

  /** Carries out the oldest pending commit, and what waits for it. */
  async finishCommit(): Promise<void> {
    this.#carryOut();
    await settled();
  }

  /** Carries out commits until none is pending. */
  async finishCommits(): Promise<void> {
    while (this.pending.length > 0) await this.finishCommit();
  }

  #carryOut(): void {
    const commit = this.pending.shift();
    assert.ok(commit !== undefined, "expected a commit, got none");
    commit();
  }

  #failIfTold(): void {
    if (this.problem === undefined) return;
    throw toStoreError(new TypeError(this.problem));
  }
}
