import { isDeepStrictEqual } from "node:util";
import {
  type Clock,
  commitBytesMax,
  type CommitResult,
  type CommitStore,
  Committer,
  type Outcome,
} from "../../src/store/committer.ts";
import {
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  SWEEP_MS,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import { Random } from "./random.ts";

/**
 * One schedule: a committer between clients that create a few plants over and
 * over and a store that fails in every way a store can, in virtual time. After
 * each step a model that knows nothing of the committer's inside says what may
 * be stored and what may be answered.
 */

/** What Deno KV takes in one write, counted as it counts. */
const WRITE_BYTES_MAX = 819_200;

/** More turns of the microtask queue than any step of the committer takes. */
const TURNS = 24;

/** How soon a client sends a create that failed again. */
const REPEAT_MS_MAX = 100;

/** Something that stands under an id without being a plant. */
const FOREIGN = Symbol("foreign");

/** How one operation of the store goes. */
interface Course {
  /** From the call to the moment it takes effect; `undefined` for never. */
  readonly effectMs: number | undefined;
  /** From the call to the answer; `undefined` for never. */
  readonly answerMs: number | undefined;
  readonly answer: "as it went" | "throws" | "exists" | "busy";
}

/** An operation of the committer on the store that has not been answered. */
interface Operation {
  readonly kind: "commit" | "read";
  readonly ids: readonly bigint[];
}

/** A create that a client waits for. */
interface Waiting {
  readonly newPlant: NewPlant;
  readonly deadlineMs: number;
}

/** How a schedule is drawn. */
interface Shape {
  readonly plantsMax: number;
  readonly inFlightMax: number;
  readonly ids: number;
  readonly creates: number;
  /** Share of store operations that go wrong in some way. */
  readonly trouble: number;
  /** Share of operations that are never answered. */
  readonly silence: number;
  /** Share of creates that come with the next one, at the same moment. */
  readonly burst: number;
  /** Whether names are so long that bytes bound a batch. */
  readonly large: boolean;
  /** Share of steps at which another process writes an id. */
  readonly others: number;
}

/** What one schedule saw, to show that schedules reach what they are for. */
export interface Seen {
  readonly outcomes: Map<string, number>;
  readonly courses: Map<string, number>;
  batchMax: number;
}

/** A fault of the committer, as the model sees it. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Runs the schedule of a seed. @throws {Violation} */
export async function simulate(seed: number, seen: Seen): Promise<void> {
  // The committer's own jitter must repeat with the seed, too.
  const mathRandom = Math.random;
  const schedule = new Schedule(seed, seen);
  Math.random = () => schedule.random.float();
  try {
    await schedule.run();
  } finally {
    Math.random = mathRandom;
  }
}

class Schedule {
  readonly random: Random;
  readonly #shape: Shape;
  readonly #seen: Seen;
  readonly #committer: Committer;

  #nowMs = 0;
  readonly #events: { atMs: number; run: () => void }[] = [];
  #repeatUntilMs = 0;
  #violation: Violation | undefined;

  /** The store itself: what is on disk. */
  readonly #disk = new Map<bigint, Plant | typeof FOREIGN>();
  readonly #operations = new Set<Operation>();
  #sleeping = 0;

  // The model.
  /** Every plant that anyone sent for an id. */
  readonly #sent = new Map<bigint, Plant[]>();
  readonly #waiting = new Set<Waiting>();
  /** The disk as it was after the last step: nothing on it ever changes. */
  readonly #known = new Map<bigint, Plant | typeof FOREIGN>();
  /** Ids for which a create was answered `stored`. */
  readonly #stored = new Set<bigint>();
  /** When an operation that held an id last threw. */
  readonly #threwMs = new Map<bigint, number>();
  #failing = false;

  constructor(seed: number, seen: Seen) {
    this.random = new Random(seed);
    this.#shape = drawShape(this.random);
    this.#seen = seen;
    const store: CommitStore = {
      commitPlantsMax: this.#shape.plantsMax,
      commitsInFlightMax: this.#shape.inFlightMax,
      commit: (plants) => this.#commit(plants),
      read: (ids) => this.#read(ids),
      look: () => undefined,
    };
    const clock: Clock = {
      nowMs: () => this.#nowMs,
      sleep: (ms) => this.#sleep(ms),
    };
    this.#committer = new Committer(store, (problem) => {
      this.#expect(
        (problem !== undefined) !== this.#failing,
        `reported ${problem ?? "well"} twice`,
      );
      this.#failing = problem !== undefined;
    }, clock);
  }

  async run(): Promise<void> {
    this.#drawCreates();
    const lastMs = Math.max(...this.#events.map(({ atMs }) => atMs));
    this.#repeatUntilMs = lastMs + COMMIT_MS_MAX + 2 * SWEEP_MS;
    const endMs = this.#repeatUntilMs + REPEAT_MS_MAX + COMMIT_MS_MAX +
      2 * SWEEP_MS;
    for (let atMs = SWEEP_MS; atMs <= endMs; atMs += SWEEP_MS) {
      this.#at(atMs, () => {
        this.#committer.sweep();
        // Answers reach their clients before the next event.
        this.#at(this.#nowMs, () => this.#assertNoneOverdue());
      });
    }
    for (;;) {
      const event = this.#events.pop();
      if (event === undefined) break;
      if (event.atMs > endMs) break;
      this.#nowMs = event.atMs;
      event.run();
      for (let turn = 0; turn < TURNS; turn++) await undefined;
      this.#assertStep();
      if (this.#violation !== undefined) throw this.#violation;
    }
    this.#expect(this.#waiting.size === 0, "a create was never answered");
    if (this.#violation !== undefined) throw this.#violation;
  }

  // Clients.

  #drawCreates(): void {
    const { creates, ids, burst, others, large } = this.#shape;
    const { random } = this;
    let atMs = 0;
    for (let i = 0; i < creates; i++) {
      if (!random.chance(burst)) {
        atMs += random.int(0, random.pick([3, 3, 900]));
      }
      const id = BigInt(random.int(1, ids)) * (random.chance(0.5) ? 1n : -1n);
      const plant = drawPlant(random, large);
      this.#at(atMs, () => this.#create({ id, plant }));
      if (random.chance(others)) {
        this.#at(atMs + random.int(0, 20), () => this.#writeOfAnother(id));
      }
    }
  }

  #create(newPlant: NewPlant): void {
    this.#send(newPlant);
    const create: Waiting = {
      newPlant,
      deadlineMs: this.#nowMs + COMMIT_MS_MAX,
    };
    const sinceMs = this.#nowMs;
    this.#waiting.add(create);
    this.#committer.create(newPlant).then((outcome) => {
      this.#waiting.delete(create);
      count(this.#seen.outcomes, outcome);
      this.#assertOutcome(create, outcome, sinceMs);
      // A client that saw a failure sends the same again, some of the time.
      if (this.#nowMs > this.#repeatUntilMs) return;
      if (outcome === "failed" && this.random.chance(0.5)) {
        const againMs = this.#nowMs + this.random.int(0, REPEAT_MS_MAX);
        this.#at(againMs, () => this.#create(newPlant));
      }
    }, () => this.#expect(false, "create() rejected"));
  }

  /** Another instance on the same store, or another program. */
  #writeOfAnother(id: bigint): void {
    if (this.#disk.has(id)) return;
    if (this.random.chance(0.2)) {
      this.#disk.set(id, FOREIGN);
      return;
    }
    const plant = drawPlant(this.random, false);
    this.#send({ id, plant });
    this.#disk.set(id, plant);
  }

  #send({ id, plant }: NewPlant): void {
    const plants = this.#sent.get(id);
    if (plants === undefined) this.#sent.set(id, [plant]);
    else plants.push(plant);
  }

  // The store.

  #commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    const ids = plants.map(({ id }) => id);
    this.#seen.batchMax = Math.max(this.#seen.batchMax, plants.length);
    this.#assertBatch(plants);
    // What the committer does with its array afterwards changes nothing.
    const writes = plants.map(({ id, plant }) => ({ id, plant: { ...plant } }));
    let result: CommitResult = "exists";
    return this.#operate({ kind: "commit", ids }, () => {
      if (ids.some((id) => this.#disk.has(id))) return;
      for (const { id, plant } of writes) this.#disk.set(id, plant);
      result = "committed";
    }, () => result);
  }

  #read(ids: readonly bigint[]): Promise<(Plant | null | undefined)[]> {
    let found: (Plant | null | undefined)[] = [];
    const asked = [...ids];
    return this.#operate({ kind: "read", ids: asked }, () => {
      found = asked.map((id) => {
        const stored = this.#disk.get(id);
        if (stored === FOREIGN) return null;
        return stored === undefined ? undefined : { ...stored };
      });
    }, () => found);
  }

  #operate<T>(
    operation: Operation,
    effect: () => void,
    result: () => T,
  ): Promise<T | CommitResult & T> {
    for (const other of this.#operations) {
      this.#expect(
        !other.ids.some((id) => operation.ids.includes(id)),
        "one id was in two operations at a time",
      );
    }
    this.#operations.add(operation);
    this.#expect(
      this.#operations.size + this.#sleeping <= this.#shape.inFlightMax,
      `${this.#operations.size} operations were under way`,
    );
    const course = this.#drawCourse(operation.kind);
    const { effectMs, answerMs, answer } = course;
    if (effectMs !== undefined) this.#at(this.#nowMs + effectMs, effect);
    return new Promise((resolve, reject) => {
      if (answerMs === undefined) return;
      this.#at(this.#nowMs + answerMs, () => {
        this.#operations.delete(operation);
        if (answer === "throws") {
          for (const id of operation.ids) this.#threwMs.set(id, this.#nowMs);
          reject(new TypeError("simulated fault"));
        } else if (answer === "as it went") {
          resolve(result());
        } else {
          resolve(answer as CommitResult & T);
        }
      });
    });
  }

  #drawCourse(kind: Operation["kind"]): Course {
    const { random } = this;
    const { trouble, silence } = this.#shape;
    const effectMs = random.int(0, 10);
    const answerMs = effectMs + random.int(0, 10);
    const lateMs = random.int(COMMIT_MS_MAX - 1_000, COMMIT_MS_MAX + 3_000);
    const course = (name: string, drawn: Course) => {
      count(this.#seen.courses, `${kind}: ${name}`);
      return drawn;
    };
    if (random.chance(silence)) {
      const name = random.pick(
        ["never", "lands, never answers", "lands late, never answers"],
      );
      return course(name, {
        effectMs: name === "never"
          ? undefined
          : name === "lands, never answers"
          ? effectMs
          : lateMs,
        answerMs: undefined,
        answer: "as it went",
      });
    }
    if (!random.chance(trouble)) {
      return course("well", { effectMs, answerMs, answer: "as it went" });
    }
    const name = kind === "read" ? random.pick(["fails", "late"]) : random.pick(
      ["fails", "fails after writing", "late", "exists", "busy", "busy"],
    );
    switch (name) {
      case "fails":
        return course(name, {
          effectMs: undefined,
          answerMs,
          answer: "throws",
        });
      case "fails after writing":
        return course(name, { effectMs, answerMs, answer: "throws" });
      case "exists":
        // It landed, its answer was lost, and the store tried again.
        return course("exists after writing", {
          effectMs,
          answerMs: answerMs + random.int(0, 500),
          answer: "exists",
        });
      case "busy":
        return course(name, { effectMs: undefined, answerMs, answer: "busy" });
      default:
        return course("late", {
          effectMs: random.pick([effectMs, lateMs]),
          answerMs: lateMs + random.int(0, 10),
          answer: "as it went",
        });
    }
  }

  // The clock.

  #sleep(ms: number): Promise<void> {
    this.#expect(ms >= 0 && ms < COMMIT_MS_MAX, `slept for ${ms} ms`);
    this.#sleeping++;
    return new Promise((resolve) => {
      this.#at(this.#nowMs + ms, () => {
        this.#sleeping--;
        resolve();
      });
    });
  }

  #at(atMs: number, run: () => void): void {
    const events = this.#events;
    const event = { atMs, run };
    // Kept in order, the next one last.
    let from = 0;
    let to = events.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((events[middle]?.atMs ?? 0) > atMs) from = middle + 1;
      else to = middle;
    }
    events.splice(from, 0, event);
  }

  // The model.

  #expect(holds: boolean, otherwise: string): void {
    if (holds) return;
    this.#violation ??= new Violation(
      `at ${this.#nowMs.toFixed(1)} ms: ${otherwise}`,
    );
  }

  #assertBatch(plants: readonly NewPlant[]): void {
    this.#expect(plants.length > 0, "an empty batch");
    this.#expect(
      plants.length <= this.#shape.plantsMax,
      `a batch of ${plants.length}`,
    );
    this.#expect(
      new Set(plants.map(({ id }) => id)).size === plants.length,
      "an id twice in a batch",
    );
    let estimated = 0;
    let bytes = 0;
    for (const { plant } of plants) {
      estimated += commitBytesMax(plant);
      bytes += writeBytes(plant);
    }
    this.#expect(
      estimated <= COMMIT_BYTES_MAX,
      `a batch of ${estimated} bytes`,
    );
    this.#expect(bytes <= WRITE_BYTES_MAX, `a write of ${bytes} bytes`);
    for (const { id, plant } of plants) {
      this.#expect(this.#wasSent(id, plant), `committed what nobody sent`);
    }
  }

  #assertOutcome(
    { newPlant: { id, plant }, deadlineMs }: Waiting,
    outcome: Outcome,
    sinceMs: number,
  ): void {
    const onDisk = this.#disk.get(id);
    switch (outcome) {
      case "stored":
        this.#expect(!this.#stored.has(id), "stored one id twice");
        this.#stored.add(id);
        this.#expect(
          isDeepStrictEqual(onDisk, plant),
          "answered stored for a plant that is not",
        );
        break;
      case "replayed":
        this.#expect(
          isDeepStrictEqual(onDisk, plant),
          "answered replayed for a plant that is not stored",
        );
        break;
      case "conflict":
        this.#expect(
          onDisk !== undefined && !isDeepStrictEqual(onDisk, plant),
          "answered conflict with nothing else stored",
        );
        break;
      case "failed":
        this.#expect(
          this.#nowMs >= deadlineMs ||
            (this.#threwMs.get(id) ?? -1) >= sinceMs,
          "answered failed before its time, and its commit did not fail",
        );
        break;
      case "queue full":
        this.#expect(
          this.#waiting.size + 1 >= CREATES_WAITING_MAX,
          "the queue was not full",
        );
    }
  }

  #assertNoneOverdue(): void {
    for (const { deadlineMs } of this.#waiting) {
      this.#expect(deadlineMs > this.#nowMs, "not answered at its deadline");
    }
  }

  #assertStep(): void {
    this.#expect(
      this.#committer.waiting === this.#waiting.size,
      `${this.#committer.waiting} waiting, not ${this.#waiting.size}`,
    );
    for (const [id, stored] of this.#disk) {
      const known = this.#known.get(id);
      if (known === undefined) {
        this.#known.set(id, stored);
        this.#expect(
          stored === FOREIGN || this.#wasSent(id, stored),
          "a stored plant that nobody sent",
        );
      } else {
        this.#expect(known === stored, "a stored plant changed");
      }
    }
    this.#expect(
      this.#waiting.size === 0 || this.#operations.size + this.#sleeping > 0,
      "creates waited for an idle store",
    );
  }

  #wasSent(id: bigint, plant: Plant): boolean {
    return this.#sent.get(id)?.some((sent) => isDeepStrictEqual(sent, plant)) ??
      false;
  }
}

function drawShape(random: Random): Shape {
  const large = random.chance(0.1);
  const crowd = large || random.chance(0.2);
  return {
    plantsMax: large ? 100 : random.pick([1, 2, 3, 10, 100]),
    inFlightMax: random.pick([1, 2, 2, 3, 32]),
    ids: crowd ? random.int(20, 60) : random.int(1, 6),
    creates: crowd ? random.int(40, 80) : random.int(5, 40),
    trouble: random.pick([0, 0.2, 0.5, 0.9]),
    silence: random.pick([0, 0, 0.02, 0.1]),
    burst: crowd ? 0.95 : random.pick([0.2, 0.6, 0.9]),
    large,
    others: random.pick([0, 0, 0.1, 0.3]),
  };
}

/** Plants that differ in all the ways in which two plants can. */
function drawPlant(random: Random, large: boolean): Plant {
  if (large) {
    const name = random.pick(["a", "ж"]).repeat(random.int(30_000, 32_700));
    return { name };
  }
  const name = random.pick(["", "Monstera", "Monstera ", "monstera"]);
  const tag = random.pick([undefined, undefined, "", "climber"]);
  return tag === undefined ? { name } : { name, tag };
}

/** A plant in a write as Deno KV counts it, from below. */
function writeBytes({ name, tag = "" }: Plant): number {
  const texts = [name, tag].map((text) =>
    /^[\0-\xff]*$/.test(text) ? text.length : 2 * text.length
  );
  const keyBytes = 10;
  return 3 * keyBytes + texts.reduce((a, b) => a + b);
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
