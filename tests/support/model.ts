import { isDeepStrictEqual } from "node:util";
import {
  COMMIT_MS_MAX,
  LOCK_RETRY_MS_MAX,
  RECOVERY_MS_MIN,
} from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import type { Outcome } from "../../src/store/committer.ts";
import type {
  Operation,
  SimulatedFile,
  SimulatedPath,
  StoreObserver,
} from "./simulated_store.ts";
import type { VirtualTime } from "./virtual_time.ts";

/** A violation of what the service promises. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** What all clients and instances share. */
export class WorldModel {
  readonly time: VirtualTime;
  readonly path: SimulatedPath;
  /** The ids of each file that a create was answered `stored` for. */
  readonly #stored = new Map<SimulatedFile, Set<bigint>>();
  #violation: Violation | undefined;

  constructor(time: VirtualTime, path: SimulatedPath) {
    this.time = time;
    this.path = path;
  }

  /** Records a violation; the first one counts. */
  expect(holds: boolean, otherwise: string): void {
    if (holds) return;
    this.#violation ??= new Violation(
      `at ${this.time.nowMs.toFixed(1)} ms: ${otherwise}`,
    );
  }

  /** @throws {Violation} if there was one */
  assertNone(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  /**
   * Compares an outcome with what is on disk at this moment; no file ever
   * changes or loses a plant.
   */
  assertOnDisk(outcome: Outcome, { id, plant }: NewPlant): void {
    const { file } = this.path;
    const value = file?.get(id);
    const isSame = isDeepStrictEqual(value, plant);
    const isOnDisk = outcome === "conflict" ? !isSame : isSame;
    this.expect(
      value !== undefined && isOnDisk,
      `answered ${outcome}, which the disk contradicts`,
    );
    if (outcome !== "stored" || file === undefined) return;
    const stored = this.#stored.get(file) ?? new Set();
    this.#stored.set(file, stored);
    this.expect(!stored.has(id), "answered stored twice for one id");
    stored.add(id);
  }
}

/** A create that waits for its outcome. */
interface WaitingCreate extends NewPlant {
  readonly sinceMs: number;
  readonly step: number;
}

/** The bounds of an instance. */
export interface InstanceBounds {
  readonly plantsMax: number;
  readonly inFlightMax: number;
}

/** One instance of the service, seen as a black box. */
export class InstanceModel implements StoreObserver {
  readonly #world: WorldModel;
  readonly #bounds: InstanceBounds;
  readonly #waiting = new Set<WaitingCreate>();
  readonly #operations = new Set<Operation>();
  /** The commits that wait for a lock. */
  readonly #sleeping = new Set<Operation>();
  /** When an operation with an id last failed. */
  readonly #failedMs = new Map<bigint, number>();
  /** When the creates of an id last reached their deadline. */
  readonly #expiredMs = new Map<bigint, number>();
  #problem: string | undefined;
  /** Whether an operation failed in this event. */
  #hasFailed = false;
  /** When an operation last failed, or a create reached its deadline. */
  #lastFailedMs = -Infinity;
  /** The operation that ended last. */
  #last: Operation = { ids: [] };

  constructor(world: WorldModel, bounds: InstanceBounds) {
    this.#world = world;
    this.#bounds = bounds;
  }

  get isFailing(): boolean {
    return this.#problem !== undefined;
  }

  /** Whether no operation can start. */
  get isFull(): boolean {
    return this.#inFlight.length >= this.#bounds.inFlightMax;
  }

  get waiting(): readonly NewPlant[] {
    return [...this.#waiting];
  }

  get #inFlight(): readonly Operation[] {
    return [...this.#operations, ...this.#sleeping];
  }

  /** Records a create that is sent now. */
  create(newPlant: NewPlant): WaitingCreate {
    const { nowMs: sinceMs, step } = this.#world.time;
    const create = { ...newPlant, sinceMs, step };
    this.#waiting.add(create);
    return create;
  }

  /** Checks the outcome of a create; other tests check when it is refused. */
  answered(create: WaitingCreate, outcome: Outcome): void {
    const { nowMs, step } = this.#world.time;
    const { id, sinceMs } = create;
    this.#waiting.delete(create);
    const isAtOnce = create.step === step;
    if (outcome === "queue_full") {
      this.#expect(isAtOnce, "refused a create that it had accepted");
      const isIdle = this.#inFlight.length + this.#waiting.size === 0;
      this.#expect(!isIdle, "refused a create with an idle store");
    } else if (outcome === "failed") {
      // The creates of one id have the deadline of the first one.
      if (nowMs >= sinceMs + COMMIT_MS_MAX) {
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
      this.#world.assertOnDisk(outcome, create);
    }
  }

  /** See {@link StoreObserver}. */
  started(operation: Operation): void {
    const { ids, plants } = operation;
    for (const other of this.#inFlight.flatMap(({ ids }) => ids)) {
      // The operation of an expired create may still be in flight.
      const isNew = !ids.includes(other) || this.#expiredMs.has(other);
      this.#expect(isNew, `${other} is in two operations`);
    }
    this.#expect(!this.isFull, "too many operations in flight");
    this.#operations.add(operation);
    this.#expect(ids.length > 0, "an empty operation");
    this.#expect(new Set(ids).size === ids.length, "an id twice in a batch");
    this.#expect(ids.length <= this.#bounds.plantsMax, `${ids.length} ids`);
    for (const { id, plant } of plants ?? []) {
      const isWaiting = this.#waiting.values().some((create) =>
        create.id === id && isDeepStrictEqual(create.plant, plant)
      );
      this.#expect(isWaiting, "committed a plant that no create waits for");
    }
  }

  /** See {@link StoreObserver}. */
  ended(operation: Operation, hasFailed: boolean): void {
    this.#operations.delete(operation);
    this.#last = operation;
    if (!hasFailed) return;
    this.#hasFailed = true;
    this.#lastFailedMs = this.#world.time.nowMs;
    for (const id of operation.ids) this.#failedMs.set(id, this.#lastFailedMs);
  }

  /** Records that a commit waits for a lock. @returns to be called at the end */
  sleeps(ms: number): () => void {
    this.#expect(ms >= 0 && ms <= LOCK_RETRY_MS_MAX, `slept for ${ms} ms`);
    const last = this.#last;
    this.#sleeping.add(last);
    return () => void this.#sleeping.delete(last);
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
  assertStep(waiting: number): void {
    const { size } = this.#waiting;
    this.#expect(waiting === size, `${waiting} creates waiting, not ${size}`);
    this.#expect(
      size === 0 || this.#inFlight.length > 0,
      "creates waited for an idle store",
    );
    this.#expect(
      this.isFailing || !this.#hasFailed,
      "an operation failed, and the health is good",
    );
    this.#hasFailed = false;
  }

  /** Checks what holds when the answers of a sweep have reached the clients. */
  assertNoneOverdue(): void {
    for (const { sinceMs } of this.#waiting) {
      const ageMs = this.#world.time.nowMs - sinceMs;
      this.#expect(ageMs < COMMIT_MS_MAX, "not answered at its deadline");
    }
  }

  #expect(holds: boolean, otherwise: string): void {
    this.#world.expect(holds, otherwise);
  }
}
