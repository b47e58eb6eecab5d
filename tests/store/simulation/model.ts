import { isDeepStrictEqual } from "node:util";
import { API_ERRORS } from "../../../src/api_errors.ts";
import { WRITE_MS_MAX } from "../../../src/limits.ts";
import {
  countChars,
  type NewPlant,
  type Plant,
} from "../../../src/plant/plant.ts";
import { COMMIT_CHARS_MAX } from "../../../src/store/committer.ts";
import { RECOVERY_MS_MIN } from "../../../src/store/health.ts";
import type { World } from "./simulated_world.ts";

/** The ids of an operation on a store, and its plants if it is a commit. */
export interface StoreOperation {
  readonly ids: readonly bigint[];
  readonly plants?: readonly NewPlant[];
}

/** A create that waits for its answer. */
interface WaitingCreate extends NewPlant {
  readonly sinceMs: number;
  readonly step: number;
}

/** One instance of the service, seen as a black box. */
export class InstanceModel {
  readonly #world: World;
  readonly #expect: (holds: boolean, otherwise: string) => void;
  readonly #waiting = new Set<WaitingCreate>();
  readonly #operations = new Set<StoreOperation>();
  /** When an operation with an id last failed. */
  readonly #failedMs = new Map<bigint, number>();
  /** When the creates of an id last reached their deadline. */
  readonly #expiredMs = new Map<bigint, number>();
  #problem: string | undefined;
  /** Whether an operation failed in this event. */
  #hasFailed = false;
  /** When an operation last failed, or a create reached its deadline. */
  #lastFailedMs = -Infinity;

  constructor(world: World) {
    this.#world = world;
    this.#expect = world.expect;
  }

  get isFailing(): boolean {
    return this.#problem !== undefined;
  }

  /** Whether no operation can start. */
  get isFull(): boolean {
    return this.#operations.size >= this.#world.shape.inFlightMax;
  }

  get waiting(): readonly NewPlant[] {
    return [...this.#waiting];
  }

  /** Records a create that is sent now. */
  create(newPlant: NewPlant): WaitingCreate {
    const { nowMs: sinceMs, step } = this.#world.time;
    const create = { ...newPlant, sinceMs, step };
    this.#waiting.add(create);
    return create;
  }

  /** Checks the answer to a create: 200 or the number of an error. */
  answered(create: WaitingCreate, answer: number): void {
    const { nowMs, step } = this.#world.time;
    const { id, sinceMs } = create;
    this.#waiting.delete(create);
    const isAtOnce = create.step === step;
    if (answer === API_ERRORS.storeFailed.error) {
      // The creates of one id have the deadline of the first one.
      if (nowMs >= sinceMs + WRITE_MS_MAX) {
        this.#expiredMs.set(id, nowMs);
        this.#lastFailedMs = nowMs;
      }
      this.#expect(
        this.#expiredMs.get(id) === nowMs ||
          (this.#failedMs.get(id) ?? -1) >= sinceMs,
        "answered failed before the deadline, and its commit did not fail",
      );
    } else {
      this.#expect(!isAtOnce, "answered without the store");
      this.#world.answered(create, answer);
    }
  }

  /** Checks an operation that starts on the store. */
  started(operation: StoreOperation): void {
    const { ids, plants } = operation;
    this.#expect(!this.isFull, "too many operations in flight");
    this.#operations.add(operation);
    this.#expect(ids.length > 0, "an empty operation");
    this.#expect(new Set(ids).size === ids.length, "an id twice in a batch");
    const { length } = ids;
    this.#expect(length <= this.#world.shape.plantsMax, `${length} ids`);
    const fits = fitsCommit((plants ?? []).map(({ plant }) => plant));
    this.#expect(fits, `${length} plants are too large for a commit`);
    for (const { id, plant } of plants ?? []) {
      const isWaiting = this.#waiting.values().some((create) =>
        create.id === id && isDeepStrictEqual(create.plant, plant)
      );
      this.#expect(isWaiting, "committed a plant that no create waits for");
    }
  }

  /** Records that an operation has ended. */
  ended(operation: StoreOperation, hasFailed: boolean): void {
    this.#operations.delete(operation);
    if (!hasFailed) return;
    this.#hasFailed = true;
    this.#lastFailedMs = this.#world.time.nowMs;
    for (const id of operation.ids) this.#failedMs.set(id, this.#lastFailedMs);
  }

  /** Records a report of the health. */
  reported(problem: string | undefined): void {
    this.#expect(problem !== this.#problem, `reported ${problem} twice`);
    this.#expect(
      problem !== undefined ||
        this.#world.time.nowMs >= this.#lastFailedMs + RECOVERY_MS_MIN,
      "reported a recovery too early",
    );
    this.#problem = problem;
  }

  /** Checks what holds after every event. */
  assertStep(): void {
    const isBusy = this.#waiting.size === 0 || this.#operations.size > 0;
    this.#expect(isBusy, "creates waited for an idle store");
    const isStarted = this.isFull || !this.#isFullBatchWaiting();
    const late = "a full batch waited, although a commit could start";
    this.#expect(isStarted, late);
    const isHealthRight = this.isFailing || !this.#hasFailed;
    this.#expect(isHealthRight, "an operation failed, and the health is good");
    this.#hasFailed = false;
  }

  /** Whether the creates that are in no operation are enough for one. */
  #isFullBatchWaiting(): boolean {
    const { shape } = this.#world;
    const started = new Set([...this.#operations].flatMap(({ ids }) => ids));
    const waiting = [...this.#waiting].map(({ id }) => id);
    return new Set(waiting).difference(started).size >= shape.plantsMax;
  }

  /** Checks what holds when the answers of a sweep have reached the clients. */
  assertNoneOverdue(): void {
    for (const { sinceMs } of this.#waiting) {
      const ageMs = this.#world.time.nowMs - sinceMs;
      this.#expect(ageMs < WRITE_MS_MAX, "not answered at its deadline");
    }
  }
}

function fitsCommit(plants: readonly Plant[]): boolean {
  const chars = plants.reduce((sum, plant) => sum + countChars(plant), 0);
  return chars <= COMMIT_CHARS_MAX;
}
