import { COMMIT_MS_MAX } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import type { CommitResult, CommitStore } from "../../src/store/committer.ts";
import type { ObservedStore } from "../../src/store/health.ts";
import type { Random } from "./random.ts";
import type { Seen } from "./seen.ts";
import type { VirtualTime } from "./virtual_time.ts";

/** A value of another program, which is not a plant. */
export const FOREIGN = Symbol("foreign");

/** What a database file holds. */
export type Content = Map<bigint, Plant | typeof FOREIGN>;

/** A database file. A process that has it open keeps it when the path changes. */
export class SimulatedFile {
  readonly content: Content;

  constructor(content: Content = new Map()) {
    this.content = content;
  }
}

/** The path of the store: the file that it leads to, if there is one. */
export interface SimulatedPath {
  file: SimulatedFile | undefined;
}

/** An operation of a committer on its store. */
export interface Operation {
  readonly kind: "commit" | "read";
  readonly ids: readonly bigint[];
  /** The plants of a commit. */
  readonly plants: readonly NewPlant[];
}

/** What observes the operations of a store. */
export interface StoreObserver {
  started(operation: Operation): void;
  ended(operation: Operation, result: CommitResult | "found" | "threw"): void;
}

/** How often the operations of a store go wrong; changes with time. */
export interface Faults {
  /** Share of operations that fail, are late or meet a lock. */
  readonly trouble: number;
  /** Share of operations that never end. */
  readonly silence: number;
}

/** Time for an operation that ends at all. */
export const OPERATION_MS_MAX = COMMIT_MS_MAX + 3_000;

const SILENT_COURSES = [
  "hangs",
  "lands and hangs",
  "lands late and hangs",
] as const;

const READ_COURSES = [
  "fails",
  "lands and answers late",
  "lands late",
] as const;

const COMMIT_COURSES = [
  "fails",
  "lands and fails",
  "lands and fails late",
  "lands and answers late",
  "lands late",
  // It landed, its answer was lost, and the store retried it.
  "lands and is repeated",
  // What existed is gone when it is read.
  "exists for a moment",
  "is busy",
  "is busy",
] as const;

/** How one operation goes. */
interface Course {
  /** From the call to the effect; `undefined` if there is none. */
  readonly effectMs: number | undefined;
  /** From the call to the answer; `undefined` if there is none. */
  readonly answerMs: number | undefined;
  readonly answer: "result" | "throws" | "exists" | "busy";
}

/** What a simulated store needs. */
export interface StoreOptions {
  readonly plantsMax: number;
  readonly inFlightMax: number;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly path: SimulatedPath;
  readonly file: SimulatedFile;
  readonly observer: StoreObserver;
  faults(): Faults;
  readonly seen: Seen;
}

/** A store that one process has open, and that fails in every known way. */
export class SimulatedStore implements CommitStore, ObservedStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax: number;
  readonly file: SimulatedFile;
  readonly #options: StoreOptions;
  #problem: string | undefined;
  /** Whether the process has ended. */
  #isKilled = false;
  /** Whether operations of the ended process still have an effect. */
  #landsLate = false;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.commitPlantsMax = options.plantsMax;
    this.commitsInFlightMax = options.inFlightMax;
    this.file = options.file;
  }

  commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    // A copy, as the committer may change its arrays later.
    const writes = plants.map(({ id, plant }) => ({ id, plant: { ...plant } }));
    const ids = writes.map(({ id }) => id);
    const { seen } = this.#options;
    seen.batchPlantsMax = Math.max(seen.batchPlantsMax, ids.length);
    const { content } = this.file;
    let result: CommitResult = "exists";
    const operation: Operation = { kind: "commit", ids, plants: writes };
    return new Promise((resolve, reject) =>
      this.#run(operation, {
        effect: () => {
          if (ids.some((id) => content.has(id))) return;
          for (const { id, plant } of writes) content.set(id, plant);
          result = "committed";
        },
        answer: (answer) => {
          if (answer !== "result") result = answer;
          resolve(result);
          return result;
        },
        reject,
      })
    );
  }

  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>> {
    const found = new Map<bigint, Plant | null>();
    const operation: Operation = { kind: "read", ids: [...ids], plants: [] };
    // A sequence of ids is read with those between them.
    const isListing = this.#options.random.chance(0.3);
    return new Promise((resolve, reject) =>
      this.#run(operation, {
        effect: () => {
          for (const [id, value] of this.file.content) {
            if (!isListing && !operation.ids.includes(id)) continue;
            found.set(id, value === FOREIGN ? null : { ...value });
          }
        },
        answer: () => {
          resolve(found);
          return "found";
        },
        reject,
      })
    );
  }

  /** Succeeds or fails at once: health_test.ts tests a silent store. */
  probe(): Promise<void> {
    const { random, faults } = this.#options;
    const isFailing = random.chance(faults().trouble / 2);
    return isFailing
      ? Promise.reject(new TypeError("simulated fault of a probe"))
      : Promise.resolve();
  }

  /** A problem lasts until a restart, as in the real store. */
  fileProblem(): string | undefined {
    const { file } = this.#options.path;
    if (file === undefined) this.#problem ??= "deleted";
    else if (file !== this.file) this.#problem ??= "replaced";
    return this.#problem;
  }

  /** Ends the process: nothing is answered, and some of it may still land. */
  kill(): void {
    this.#isKilled = true;
    this.#landsLate = this.#options.random.chance(0.5);
  }

  #run(
    operation: Operation,
    { effect, answer, reject }: {
      effect(): void;
      answer(answer: "result" | "exists" | "busy"): CommitResult | "found";
      reject(error: Error): void;
    },
  ): void {
    const { time, observer } = this.#options;
    observer.started(operation);
    const course = this.#drawCourse(operation.kind);
    if (course.effectMs !== undefined) {
      time.after(course.effectMs, () => {
        if (!this.#isKilled || this.#landsLate) effect();
      });
    }
    if (course.answerMs === undefined) return;
    time.after(course.answerMs, () => {
      if (this.#isKilled) return;
      const problem = course.answer === "throws"
        ? "simulated fault"
        : course.answer === "busy"
        ? undefined
        : this.fileProblem();
      if (problem === undefined && course.answer !== "throws") {
        observer.ended(operation, answer(course.answer));
      } else {
        observer.ended(operation, "threw");
        reject(new TypeError(problem));
      }
    });
  }

  #drawCourse(kind: Operation["kind"]): Course {
    const { random, faults, seen } = this.#options;
    const { trouble, silence } = faults();
    const name = random.chance(silence)
      ? random.pick(SILENT_COURSES)
      : !random.chance(trouble)
      ? "succeeds"
      : random.pick(kind === "read" ? READ_COURSES : COMMIT_COURSES);
    seen.add(`${kind} ${name}`);
    const soonMs = random.int(0, 10);
    const endMs = soonMs + random.int(0, 10);
    const lateMs = random.int(COMMIT_MS_MAX - 1_000, OPERATION_MS_MAX - 10);
    switch (name) {
      case "succeeds":
        return { effectMs: soonMs, answerMs: endMs, answer: "result" };
      case "hangs":
        return { effectMs: undefined, answerMs: undefined, answer: "result" };
      case "lands and hangs":
        return { effectMs: soonMs, answerMs: undefined, answer: "result" };
      case "lands late and hangs":
        return { effectMs: lateMs, answerMs: undefined, answer: "result" };
      case "fails":
        return { effectMs: undefined, answerMs: endMs, answer: "throws" };
      case "lands and fails":
        return { effectMs: soonMs, answerMs: endMs, answer: "throws" };
      case "lands and fails late":
        return { effectMs: soonMs, answerMs: lateMs, answer: "throws" };
      case "lands and answers late":
        return { effectMs: soonMs, answerMs: lateMs, answer: "result" };
      case "lands late":
        return { effectMs: lateMs, answerMs: lateMs + 10, answer: "result" };
      case "lands and is repeated":
        return { effectMs: soonMs, answerMs: endMs + 200, answer: "exists" };
      case "exists for a moment":
        return { effectMs: undefined, answerMs: endMs, answer: "exists" };
      case "is busy":
        return { effectMs: undefined, answerMs: endMs, answer: "busy" };
    }
  }
}
