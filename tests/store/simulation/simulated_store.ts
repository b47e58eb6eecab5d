import { WRITE_MS_MAX } from "../../../src/limits.ts";
import type { NewPlant, Plant } from "../../../src/plant/plant.ts";
import type { CommitBounds, Store } from "../../../src/store/kv_store.ts";
import { toStoreError } from "../../../src/store/store_error.ts";
import { LONGEST_PLANTS } from "../../support/plants.ts";
import type { InstanceModel, StoreOperation } from "./model.ts";
import type { World } from "./simulated_world.ts";

/** Time for an operation that ends at all. */
export const OPERATION_MS_MAX = WRITE_MS_MAX + 3_000;

/** How an operation goes: when it takes effect, if it does, and its answer. */
interface Course {
  readonly effect?: "soon" | "late";
  readonly answer?: "soon" | "late";
  /** The answer, if it is not the result. */
  readonly instead?: "failure" | "exists" | "locked";
}

/** The courses of operations that never end. */
const SILENT: readonly Course[] = [{}, { effect: "soon" }, { effect: "late" }];

/** The courses of operations that go wrong in another way. */
const READ: readonly Course[] = [
  { answer: "soon", instead: "failure" },
  { effect: "soon", answer: "late" },
  { effect: "late", answer: "late" },
];
const COMMIT: readonly Course[] = [
  ...READ,
  { effect: "soon", answer: "soon", instead: "failure" },
  { effect: "soon", answer: "late", instead: "failure" },
  // It landed, its answer was lost, and the store retried it.
  { effect: "soon", answer: "soon", instead: "exists" },
  // What existed is gone when it is read.
  { answer: "soon", instead: "exists" },
  { answer: "soon", instead: "locked" },
];

/** A store that one process has open, and that fails in every known way. */
export class SimulatedStore implements Store {
  readonly commitBounds: CommitBounds;
  readonly databaseBytes = undefined;
  readonly #world: World;
  readonly #model: InstanceModel;
  /** Whether the process has ended. */
  isKilled = false;
  /** Whether operations of the ended process still have an effect. */
  #landsLate = false;

  constructor(world: World, model: InstanceModel) {
    this.commitBounds = world.shape;
    this.#world = world;
    this.#model = model;
  }

  commit(newPlants: readonly NewPlant[]): Promise<"committed" | "exists"> {
    // A copy, which the committer cannot alter later.
    const plants = newPlants.map(({ id, plant }) => ({
      id,
      plant: { ...plant },
    }));
    const ids = plants.map(({ id }) => id);
    const { shape, seen, file, landed } = this.#world;
    // As many of the longest plants as fit a commit.
    if (ids.length >= 12) {
      seen.push(
        shape.plants === LONGEST_PLANTS ? "large plants" : "large batch",
      );
    }
    let result: "committed" | "exists" = "exists";
    const effect = () => {
      if (ids.some((id) => file.has(id))) return;
      for (const { id, plant } of plants) {
        file.set(id, plant);
        landed.add(id);
      }
      result = "committed";
    };
    return this.#run({ ids, plants }, effect, (instead) => instead ?? result);
  }

  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>> {
    // A sequence of ids is read with those between them.
    const isListing = this.#world.random.chance(0.3);
    const found = new Map<bigint, Plant | null>();
    const effect = () => {
      for (const [id, value] of this.#world.file) {
        if (isListing || ids.includes(id)) found.set(id, value);
      }
    };
    return this.#run({ ids }, effect, () => found);
  }

  /** Succeeds or fails at once: health_test.ts tests a silent store. */
  probe(): Promise<void> {
    const { random, faults } = this.#world;
    return random.chance(faults.trouble / 2)
      ? Promise.reject(toStoreError("simulated fault of a probe"))
      : Promise.resolve();
  }

  verifyFiles(): void {}

  close(): void {}

  /** Ends the process: nothing is answered, and some of it may still land. */
  kill(): void {
    this.isKilled = true;
    this.#landsLate = this.#world.random.chance(0.5);
  }

  #run<Result>(
    operation: StoreOperation,
    effect: () => void,
    resultOf: (instead: "exists" | undefined) => Result,
  ): Promise<Result> {
    const { time, random } = this.#world;
    this.#model.started(operation);
    const course = this.#drawCourse(operation);
    const afterMs = {
      soon: random.int(0, 10),
      late: random.int(WRITE_MS_MAX - 1_000, OPERATION_MS_MAX - 10),
    };
    if (course.effect !== undefined) {
      time.after(afterMs[course.effect], () => {
        if (!this.isKilled || this.#landsLate) effect();
      });
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    if (course.answer !== undefined) {
      time.after(afterMs[course.answer] + random.int(0, 10), () => {
        if (this.isKilled) return;
        const { instead } = course;
        this.#model.ended(operation, instead === "failure");
        if (instead === "failure") reject(toStoreError("simulated fault"));
        else if (instead === "locked") {
          this.#world.seen.push("locked");
          reject(toStoreError("database is locked"));
        } else resolve(resultOf(instead));
      });
    }
    return promise;
  }

  #drawCourse({ plants }: StoreOperation): Course {
    const { random, faults } = this.#world;
    if (random.chance(faults.silence)) return random.pick(SILENT);
    if (random.chance(faults.trouble)) {
      return random.pick(plants === undefined ? READ : COMMIT);
    }
    return { effect: "soon", answer: "soon" };
  }
}
