import {
  CHECK_MS,
  COMMIT_MS_MAX,
  PROBE_MS,
  QUEUE_MS_MAX,
  RECOVERY_MS_MIN,
} from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import { Committer, type Outcome } from "../../src/store/committer.ts";
import { StoreHealth } from "../../src/store/health.ts";
import { type InstanceBounds, InstanceModel, WorldModel } from "./model.ts";
import { SIMILAR_PLANTS } from "./plants.ts";
import { Random } from "./random.ts";
import {
  type Faults,
  FOREIGN,
  OPERATION_MS_MAX,
  see,
  type Seen,
  SEEN_BY_STORES,
  type SimulatedFile,
  type SimulatedPath,
  SimulatedStore,
} from "./simulated_store.ts";
import { VirtualTime } from "./virtual_time.ts";

/** How soon a client repeats a create. */
const REPEAT_MS_MAX = 100;

/** Time from the last failure to the probe that finds the store healthy. */
const RECOVERY_MS_MAX = RECOVERY_MS_MIN + PROBE_MS + 2 * CHECK_MS;

/** Share of refused creates that the client repeats. */
const REPEATED_REFUSALS = 0.3;

const NO_FAULTS: Faults = { trouble: 0, silence: 0 };

/** What may happen to the file of the store: what the path leads to, in turn. */
const ACCIDENTS: Readonly<
  Record<
    string,
    readonly ("nothing" | "the file" | "a backup" | "a new file")[]
  >
> = {
  "moved away and back": ["nothing", "the file"],
  "deleted and restored": ["nothing", "a backup"],
  "restored": ["a backup"],
  "replaced by an empty one": ["a new file"],
  "replaced and put back": ["a backup", "the file"],
};

const OUTCOMES: Readonly<Record<Outcome, true>> = {
  stored: true,
  unchanged: true,
  conflict: true,
  queue_full: true,
  failed: true,
};

/** Everything that the schedules reach. */
export const REACHED: readonly string[] = [
  ...SEEN_BY_STORES,
  ...Object.keys(ACCIDENTS),
  ...Object.keys(OUTCOMES),
  "restarted",
  "recovered",
  "full",
];

/** How a schedule is drawn. */
interface Shape extends InstanceBounds, Faults {
  readonly queueMsMax: number;
  readonly instances: number;
  readonly ids: number;
  readonly creates: number;
  /** Share of creates that are sent together with the one before. */
  readonly burst: number;
  /** Share of creates that repeat one that was sent before. */
  readonly repeats: number;
  /** Share of creates whose id another program writes, too. */
  readonly others: number;
  /** How often the file is deleted or replaced, and instances are restarted. */
  readonly accidents: number;
}

/**
 * Runs the schedule of a seed, in virtual time: one or two instances of the
 * service between clients, which create a few plants over and over, and a store
 * that fails in every known way. Black-box models check every answer.
 * @throws {Violation}
 */
export async function simulate(seed: number, seen: Seen): Promise<void> {
  await new Schedule(seed, seen).run();
}

class Schedule {
  readonly #random: Random;
  readonly #shape: Shape;
  readonly #seen: Seen;
  readonly #time = new VirtualTime();
  readonly #path: SimulatedPath = { file: new Map() };
  readonly #world = new WorldModel(this.#time, this.#path);
  readonly #instances: SimulatedInstance[] = [];
  /** The last copy of the file. */
  #backup: SimulatedFile = new Map();
  /** Every plant that was sent. */
  readonly #sent: NewPlant[] = [];
  /** From now on clients send nothing, and nothing fails. */
  #calmMs = Infinity;

  constructor(seed: number, seen: Seen) {
    this.#random = new Random(seed);
    this.#shape = drawShape(this.#random);
    this.#seen = seen;
    while (this.#instances.length < this.#shape.instances) {
      this.#instances.push(this.#startInstance());
    }
  }

  async run(): Promise<void> {
    const lastMs = this.#drawCreates();
    this.#drawAccidents(lastMs);
    this.#calmMs = lastMs + COMMIT_MS_MAX + 2 * CHECK_MS;
    const checkMs = this.#calmMs + OPERATION_MS_MAX + RECOVERY_MS_MAX;
    this.#time.at(checkMs, () => this.#checkRecovery());
    const endMs = checkMs + 2 * CHECK_MS;
    while (await this.#time.advance(endMs)) {
      for (const instance of this.#instances) instance.assertStep();
      this.#world.assertNone();
    }
    for (const { model } of this.#instances) {
      this.#world.expect(model.waiting.length === 0, "never answered a create");
    }
    this.#world.assertNone();
  }

  // Clients.

  /** @returns the time of the last create */
  #drawCreates(): number {
    const { creates, ids, burst, others } = this.#shape;
    const random = this.#random;
    let atMs = 0;
    for (let i = 0; i < creates; i++) {
      if (!random.chance(burst)) {
        atMs += random.int(0, random.pick([3, 3, 900]));
      }
      const id = BigInt(random.int(1, ids)) * random.pick([1n, -1n]);
      this.#time.at(atMs, () => this.#create(this.#drawPlant(id)));
      if (random.chance(others)) {
        const otherMs = atMs + random.int(0, 20);
        this.#time.at(otherMs, () => this.#writeOfAnotherProgram(id));
      }
    }
    return atMs;
  }

  #drawPlant(id: bigint): NewPlant {
    const [first, ...others] = this.#sent.filter((sent) => sent.id === id);
    if (first !== undefined && this.#random.chance(this.#shape.repeats)) {
      return this.#random.pick([first, ...others]);
    }
    const newPlant = { id, plant: this.#random.pick(SIMILAR_PLANTS) };
    this.#sent.push(newPlant);
    return newPlant;
  }

  #create(newPlant: NewPlant): void {
    const instance =
      this.#instances[this.#random.int(0, this.#instances.length - 1)];
    instance?.create(newPlant, (outcome) => {
      this.#world.expect(
        outcome !== "failed" || this.#hasFaults,
        "answered failed without a fault",
      );
      const isRefused = outcome === "failed" || outcome === "queue_full";
      const chance = isRefused ? REPEATED_REFUSALS : this.#shape.repeats / 2;
      if (this.#random.chance(chance)) this.#repeat(newPlant);
    });
  }

  get #hasFaults(): boolean {
    const { trouble, silence, accidents } = this.#shape;
    return trouble + silence + accidents > 0;
  }

  /** Sends a create again, possibly to another instance. */
  #repeat(newPlant: NewPlant): void {
    const atMs = this.#time.nowMs + this.#random.int(0, REPEAT_MS_MAX);
    if (atMs >= this.#calmMs) return;
    this.#time.at(atMs, () => this.#create(newPlant));
  }

  #writeOfAnotherProgram(id: bigint): void {
    const { file } = this.#path;
    const value = this.#random.chance(0.2)
      ? FOREIGN
      : this.#random.pick(SIMILAR_PLANTS);
    if (file !== undefined && !file.has(id)) file.set(id, value);
  }

  // The operator.

  #drawAccidents(lastMs: number): void {
    const { accidents, instances } = this.#shape;
    for (let i = 0; i < accidents; i++) {
      const backupMs = this.#random.int(0, lastMs);
      this.#time.at(backupMs, () => {
        this.#backup = new Map(this.#path.file);
      });
      this.#time.at(this.#random.int(0, lastMs), () => this.#damage());
    }
    for (let i = 0; i < accidents * instances; i++) {
      this.#time.at(this.#random.int(0, lastMs), () => this.#restart());
    }
  }

  /** Deletes or replaces the file of the store. */
  #damage(): void {
    const { file } = this.#path;
    const [first, ...others] = Object.keys(ACCIDENTS);
    const accident = this.#random.pick([first ?? "", ...others]);
    see(this.#seen, accident);
    const laterMs = this.#random.pick([0, 1, 2, 20, 600]);
    for (const [i, found] of (ACCIDENTS[accident] ?? []).entries()) {
      this.#time.after(i * laterMs, () => {
        this.#path.file = {
          "nothing": undefined,
          "the file": file,
          "a backup": new Map(this.#backup),
          "a new file": new Map(),
        }[found];
      });
    }
  }

  /** Kills an instance, whose clients lose their connections, for a new one. */
  #restart(): void {
    const index = this.#random.int(0, this.#instances.length - 1);
    for (const newPlant of this.#instances[index]?.kill() ?? []) {
      if (this.#random.chance(0.5)) this.#repeat(newPlant);
    }
    this.#instances[index] = this.#startInstance();
    see(this.#seen, "restarted");
  }

  #startInstance(): SimulatedInstance {
    const file = this.#path.file ??= new Map();
    return new SimulatedInstance(file, {
      shape: this.#shape,
      random: this.#random,
      world: this.#world,
      seen: this.#seen,
      faults: () => this.#time.nowMs < this.#calmMs ? this.#shape : NO_FAULTS,
    });
  }

  /**
   * Checks that the instances on the file in place store plants again, except
   * those whose operations never end, which must report it.
   */
  #checkRecovery(): void {
    for (const [i, instance] of this.#instances.entries()) {
      const { model } = instance;
      if (!instance.isInPlace) continue;
      if (model.isFull) {
        see(this.#seen, "full");
        this.#world.expect(model.isFailing, "refuses creates in good health");
        continue;
      }
      this.#world.expect(!model.isFailing, "the store has not recovered");
      const newPlant = { id: 1_000n + BigInt(i), plant: { name: "Ficus" } };
      instance.create(newPlant, (outcome) => {
        see(this.#seen, "recovered");
        this.#world.expect(outcome === "stored", `${outcome} after recovery`);
      });
    }
  }
}

/** What an instance needs of its schedule. */
interface Surroundings {
  readonly shape: Shape;
  readonly random: Random;
  readonly world: WorldModel;
  readonly seen: Seen;
  faults(): Faults;
}

/** One process of the service, without HTTP. */
class SimulatedInstance {
  readonly model: InstanceModel;
  readonly #surroundings: Surroundings;
  readonly #store: SimulatedStore;
  readonly #health: StoreHealth;
  readonly #committer: Committer;
  #isKilled = false;

  constructor(file: SimulatedFile, surroundings: Surroundings) {
    this.#surroundings = surroundings;
    const { shape, random, world, seen, faults } = surroundings;
    const { time, path } = world;
    this.model = new InstanceModel(world, shape);
    this.#store = new SimulatedStore({
      ...shape,
      time,
      random,
      path,
      file,
      observer: this.model,
      faults,
      seen,
    });
    this.#health = new StoreHealth(
      this.#store,
      (problem) => this.model.reported(problem),
      () => time.nowMs,
    );
    this.#committer = new Committer(this.#store, this.#health, {
      queueMsMax: shape.queueMsMax,
      clock: { nowMs: () => time.nowMs, sleep: (ms) => this.#sleep(ms) },
    });
    time.after(random.int(1, CHECK_MS), () => this.#sweep());
  }

  /** Whether the path still leads to the file that is open. */
  get isInPlace(): boolean {
    return this.#store.fileProblem() === undefined;
  }

  create(newPlant: NewPlant, onOutcome: (outcome: Outcome) => void): void {
    const { seen, world } = this.#surroundings;
    const create = this.model.create(newPlant);
    this.#committer.create(newPlant).then((outcome) => {
      if (this.#isKilled) return;
      this.model.answered(create, outcome);
      see(seen, outcome);
      onOutcome(outcome);
    }, () => world.expect(false, "create() rejected"));
  }

  assertStep(): void {
    this.model.assertStep(this.#committer.waiting);
  }

  /** Ends the process. @returns the creates without an outcome */
  kill(): readonly NewPlant[] {
    this.#isKilled = true;
    this.#store.kill();
    return this.model.waiting;
  }

  #sweep(): void {
    if (this.#isKilled) return;
    const { world } = this.#surroundings;
    const { time } = world;
    this.#committer.expire();
    this.#health.check();
    world.expect(
      this.#health.problem !== undefined || this.isInPlace,
      "a lost file was not reported",
    );
    // Answers reach their clients before the next event.
    time.after(0, () => {
      if (!this.#isKilled) this.model.assertNoneOverdue();
    });
    time.after(CHECK_MS, () => this.#sweep());
  }

  /** Sleeps as long as the seed says, so that a schedule can be repeated. */
  #sleep(ms: number): Promise<void> {
    const { random, world } = this.#surroundings;
    const wake = this.model.sleeps(ms);
    return new Promise((resolve) => {
      world.time.after(random.int(0, 20), () => {
        if (this.#isKilled) return;
        wake();
        resolve();
      });
    });
  }
}

function drawShape(random: Random): Shape {
  const crowd = random.chance(0.25);
  return {
    instances: random.pick([1, 2]),
    plantsMax: random.pick([1, 2, 3, 10, 100]),
    inFlightMax: random.pick([1, 2, 2, 3, 16]),
    queueMsMax: random.pick([QUEUE_MS_MAX, QUEUE_MS_MAX, 30, 5, Infinity]),
    ids: crowd ? random.int(20, 60) : random.int(1, 6),
    creates: crowd ? random.int(40, 80) : random.int(5, 40),
    trouble: random.pick([0, 0.2, 0.5, 0.9]),
    silence: random.pick([0, 0, 0.02, 0.1]),
    burst: crowd ? 0.95 : random.pick([0.2, 0.6, 0.9]),
    repeats: random.pick([0, 0.3, 0.6]),
    others: random.pick([0, 0, 0.1, 0.3]),
    accidents: random.pick([0, 0, 1, 2]),
  };
}
