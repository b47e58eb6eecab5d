import { COMMIT_MS_MAX } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import type { CommitResult, CommitStore } from "../../src/store/committer.ts";
import type { ObservedStore } from "../../src/store/health.ts";
import type { Random } from "./random.ts";
import type { VirtualTime } from "./virtual_time.ts";

/** A value of another program, which is not a plant. */
export const FOREIGN = Symbol("foreign");

/** A database file. A process that has it open keeps it when the path changes. */
export type SimulatedFile = Map<bigint, Plant | typeof FOREIGN>;

/** The path of the store: the file that it leads to, if there is one. */
export interface SimulatedPath {
  file: SimulatedFile | undefined;
}

/** What schedules reached, and how often, to show what they test. */
export type Seen = Map<string, number>;

export function see(seen: Seen, name: string): void {
  seen.set(name, (seen.get(name) ?? 0) + 1);
}

/** The ids of an operation on a store, and its plants if it is a commit. */
export interface Operation {
  readonly ids: readonly bigint[];
  readonly plants?: readonly NewPlant[];
}

/** What observes the operations of a store. */
export interface StoreObserver {
  started(operation: Operation): void;
  ended(operation: Operation, hasFailed: boolean): void;
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

/** How an operation goes: when it takes effect, if it does, and its answer. */
interface Course {
  readonly effect?: "soon" | "late";
  readonly answer?: "soon" | "late";
  /** The answer, if it is not the result. */
  readonly instead?: "failure" | "exists" | "busy";
}

const SUCCEEDS: Course = { effect: "soon", answer: "soon" };

/** The courses of operations that never end. */
const SILENT: Readonly<Record<string, Course>> = {
  "hangs": {},
  "lands and hangs": { effect: "soon" },
  "lands late and hangs": { effect: "late" },
};

/** The courses of operations that go wrong in another way. */
const READ: Readonly<Record<string, Course>> = {
  "fails": { answer: "soon", instead: "failure" },
  "lands and answers late": { effect: "soon", answer: "late" },
  "lands late": { effect: "late", answer: "late" },
};
const COMMIT: Readonly<Record<string, Course>> = {
  ...READ,
  "lands and fails": { effect: "soon", answer: "soon", instead: "failure" },
  "lands and fails late": {
    effect: "soon",
    answer: "late",
    instead: "failure",
  },
  // It landed, its answer was lost, and the store retried it.
  "lands and is repeated": {
    effect: "soon",
    answer: "soon",
    instead: "exists",
  },
  // What existed is gone when it is read.
  "exists for a moment": { answer: "soon", instead: "exists" },
  "is busy": { answer: "soon", instead: "busy" },
};

function namesOf(kind: string, courses: object): string[] {
  return ["succeeds", ...Object.keys({ ...SILENT, ...courses })]
    .map((name) => `${kind} ${name}`);
}

const LARGE_BATCH = "a batch of 12 or more";

/** Everything that stores see. */
export const SEEN_BY_STORES: readonly string[] = [
  ...namesOf("read", READ),
  ...namesOf("commit", COMMIT),
  LARGE_BATCH,
];

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
  readonly #options: StoreOptions;
  readonly #file: SimulatedFile;
  #problem: string | undefined;
  /** Whether the process has ended. */
  #isKilled = false;
  /** Whether operations of the ended process still have an effect. */
  #landsLate = false;

  constructor(options: StoreOptions) {
    this.#options = options;
    this.commitPlantsMax = options.plantsMax;
    this.commitsInFlightMax = options.inFlightMax;
    this.#file = options.file;
  }

  commit(newPlants: readonly NewPlant[]): Promise<CommitResult> {
    // A copy, as the committer may change its arrays later.
    const plants = newPlants.map(({ id, plant }) => ({
      id,
      plant: { ...plant },
    }));
    const ids = plants.map(({ id }) => id);
    if (ids.length >= 12) see(this.#options.seen, LARGE_BATCH);
    let result: CommitResult = "exists";
    const effect = () => {
      if (ids.some((id) => this.#file.has(id))) return;
      for (const { id, plant } of plants) this.#file.set(id, plant);
      result = "committed";
    };
    return this.#run({ ids, plants }, effect, (instead) => instead ?? result);
  }

  read(ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Plant | null>> {
    // A sequence of ids is read with those between them.
    const isListing = this.#options.random.chance(0.3);
    const found = new Map<bigint, Plant | null>();
    const effect = () => {
      for (const [id, value] of this.#file) {
        if (!isListing && !ids.includes(id)) continue;
        found.set(id, value === FOREIGN ? null : { ...value });
      }
    };
    return this.#run({ ids: [...ids] }, effect, () => found);
  }

  /** Succeeds or fails at once: health_test.ts tests a silent store. */
  probe(): Promise<void> {
    const { random, faults } = this.#options;
    return random.chance(faults().trouble / 2)
      ? Promise.reject(new TypeError("simulated fault of a probe"))
      : Promise.resolve();
  }

  /** A problem lasts until a restart, as in the real store. */
  fileProblem(): string | undefined {
    const { file } = this.#options.path;
    if (file === undefined) this.#problem ??= "deleted";
    else if (file !== this.#file) this.#problem ??= "replaced";
    return this.#problem;
  }

  /** Ends the process: nothing is answered, and some of it may still land. */
  kill(): void {
    this.#isKilled = true;
    this.#landsLate = this.#options.random.chance(0.5);
  }

  #run<Result>(
    operation: Operation,
    effect: () => void,
    resultOf: (instead: "exists" | "busy" | undefined) => Result,
  ): Promise<Result> {
    const { time, random, observer } = this.#options;
    observer.started(operation);
    const course = this.#drawCourse(operation);
    const soonMs = random.int(0, 10);
    const lateMs = random.int(COMMIT_MS_MAX - 1_000, OPERATION_MS_MAX - 10);
    if (course.effect !== undefined) {
      time.after(course.effect === "soon" ? soonMs : lateMs, () => {
        if (!this.#isKilled || this.#landsLate) effect();
      });
    }
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    if (course.answer !== undefined) {
      const answerMs = course.answer === "soon" ? soonMs : lateMs;
      time.after(answerMs + random.int(0, 10), () => {
        if (this.#isKilled) return;
        const { instead } = course;
        const problem = instead === "failure"
          ? "simulated fault"
          : instead === "busy"
          ? undefined
          : this.fileProblem();
        observer.ended(operation, problem !== undefined);
        if (problem !== undefined) reject(new TypeError(problem));
        else if (instead !== "failure") resolve(resultOf(instead));
      });
    }
    return promise;
  }

  #drawCourse({ plants }: Operation): Course {
    const { random, faults, seen } = this.#options;
    const { trouble, silence } = faults();
    const kind = plants === undefined ? "read" : "commit";
    const courses = random.chance(silence)
      ? SILENT
      : !random.chance(trouble)
      ? { succeeds: SUCCEEDS }
      : kind === "read"
      ? READ
      : COMMIT;
    const [first, ...others] = Object.entries(courses);
    const [name, course] = random.pick([first ?? ["", SUCCEEDS], ...others]);
    see(seen, `${kind} ${name}`);
    return course;
  }
}
