import {
  COMMIT_MS_MAX,
  PROBE_MS,
  RECOVERY_MS_MIN,
  SWEEP_MS,
} from "../../../src/limits.ts";
import type { NewPlant } from "../../../src/plant/plant.ts";
import { Committer, type Outcome } from "../../../src/store/committer.ts";
import { StoreHealth } from "../../../src/store/health.ts";
import { InstanceModel } from "./model.ts";
import { OPERATION_MS_MAX, SimulatedStore } from "./simulated_store.ts";
import { World } from "./simulated_world.ts";

/** How soon a client repeats a create. */
const REPEAT_MS_MAX = 100;

/** Time from the last failure to the probe that finds the store healthy. */
const RECOVERY_MS_MAX = RECOVERY_MS_MIN + PROBE_MS + 2 * SWEEP_MS;

/** Share of failed creates that the client repeats. */
const REPEATED_FAILURES = 0.3;

/** Everything that the schedules reach. */
export const REACHED: readonly string[] = [
  ...["stored", "replayed", "conflict", "failed"],
  ...["restarted", "recovered", "full", "locked"],
  ...["large batch", "large plants"],
];

/**
 * Runs the schedule of a seed, in virtual time: one or two instances of the
 * service between clients, which create a few plants over and over, and a store
 * that fails in every known way. Black-box models check every answer.
 * @returns what it reached, in order
 */
export async function simulate(seed: number): Promise<readonly string[]> {
  const world = new World(seed);
  await new Schedule(world).run();
  return world.seen;
}

class Schedule {
  readonly #world: World;
  readonly #instances: SimulatedInstance[] = [];
  /** Every plant that was sent. */
  readonly #sent: NewPlant[] = [];

  constructor(world: World) {
    this.#world = world;
    while (this.#instances.length < world.shape.instances) {
      this.#instances.push(new SimulatedInstance(world));
    }
  }

  async run(): Promise<void> {
    const world = this.#world;
    const lastMs = this.#drawCreates();
    for (let i = 0; i < world.shape.restarts; i++) {
      world.time.at(world.random.int(0, lastMs), () => this.#restart());
    }
    world.calmMs = lastMs + COMMIT_MS_MAX + 2 * SWEEP_MS;
    const checkMs = world.calmMs + OPERATION_MS_MAX + RECOVERY_MS_MAX;
    world.time.at(checkMs, () => this.#checkRecovery());
    while (await world.time.advance(checkMs + 2 * SWEEP_MS)) {
      for (const { model } of this.#instances) model.assertStep();
      world.assertNone();
    }
    for (const { model } of this.#instances) {
      world.expect(model.waiting.length === 0, "never answered a create");
    }
    world.assertNone();
  }

  // Clients.

  /** @returns the time of the last create */
  #drawCreates(): number {
    const { time, random, shape } = this.#world;
    let atMs = 0;
    for (let i = 0; i < shape.creates; i++) {
      if (!random.chance(shape.burst)) {
        atMs += random.int(0, random.pick([3, 3, 900]));
      }
      const id = BigInt(random.int(1, shape.ids)) * random.pick([1n, -1n]);
      time.at(atMs, () => this.#create(this.#drawPlant(id)));
      if (random.chance(shape.others)) {
        const otherMs = atMs + random.int(0, 20);
        time.at(otherMs, () => this.#writeOfAnotherProgram(id));
      }
    }
    return atMs;
  }

  #drawPlant(id: bigint): NewPlant {
    const { random, shape } = this.#world;
    const earlier = this.#sent.filter((sent) => sent.id === id);
    if (earlier.length > 0 && random.chance(shape.repeats)) {
      return random.pick(earlier);
    }
    const newPlant = { id, plant: random.pick(shape.plants) };
    this.#sent.push(newPlant);
    return newPlant;
  }

  #create(newPlant: NewPlant): void {
    const { random, shape } = this.#world;
    const { trouble, silence, repeats } = shape;
    const instance = this.#instances[random.int(0, shape.instances - 1)];
    instance?.create(newPlant, (outcome) => {
      this.#world.expect(
        outcome !== "failed" || trouble + silence > 0,
        "answered failed without a fault",
      );
      const chance = outcome === "failed" ? REPEATED_FAILURES : repeats / 2;
      if (random.chance(chance)) this.#repeat(newPlant);
    });
  }

  /** Sends a create again, possibly to another instance. */
  #repeat(newPlant: NewPlant): void {
    const { time, random, calmMs } = this.#world;
    const atMs = time.nowMs + random.int(0, REPEAT_MS_MAX);
    if (atMs < calmMs) time.at(atMs, () => this.#create(newPlant));
  }

  #writeOfAnotherProgram(id: bigint): void {
    const { random, shape, file } = this.#world;
    const plant = random.chance(0.2) ? null : random.pick(shape.plants);
    if (!file.has(id)) file.set(id, plant);
  }

  /** Kills an instance, whose clients lose their connections, for a new one. */
  #restart(): void {
    const { random, shape, seen } = this.#world;
    const index = random.int(0, shape.instances - 1);
    for (const newPlant of this.#instances[index]?.kill() ?? []) {
      if (random.chance(0.5)) this.#repeat(newPlant);
    }
    this.#instances[index] = new SimulatedInstance(this.#world);
    seen.push("restarted");
  }

  /**
   * Checks that the instances store plants again, except those whose operations
   * never end, which must report it.
   */
  #checkRecovery(): void {
    const world = this.#world;
    for (const [i, instance] of this.#instances.entries()) {
      const { model } = instance;
      if (model.isFull) {
        world.seen.push("full");
        world.expect(model.isFailing, "starts no commit in good health");
        continue;
      }
      world.expect(!model.isFailing, "the store has not recovered");
      const newPlant = { id: 1_000n + BigInt(i), plant: { name: "Ficus" } };
      instance.create(newPlant, (outcome) => {
        world.seen.push("recovered");
        world.expect(outcome === "stored", `${outcome} after recovery`);
      });
    }
  }
}

/** One process of the service, without HTTP. */
class SimulatedInstance {
  readonly model: InstanceModel;
  readonly #world: World;
  readonly #store: SimulatedStore;
  readonly #health: StoreHealth;
  readonly #committer: Committer;

  constructor(world: World) {
    const { time } = world;
    const clock = () => time.nowMs;
    this.#world = world;
    this.model = new InstanceModel(world);
    this.#store = new SimulatedStore(world, this.model);
    this.#health = new StoreHealth(
      this.#store,
      (error) => this.model.reported(error?.message),
      clock,
    );
    this.#committer = new Committer(
      this.#store,
      {
        committed: (startMs) => this.#health.succeeded(startMs),
        commitFailed: (error) => this.#health.commitFailed(error),
      },
      clock,
      // The operations themselves take time.
      () => Promise.resolve(),
    );
    time.after(world.random.int(1, SWEEP_MS), () => this.#sweep());
  }

  create(newPlant: NewPlant, onOutcome: (outcome: Outcome) => void): void {
    const create = this.model.create(newPlant);
    this.#committer.create(newPlant).then((outcome) => {
      if (this.#store.isKilled) return;
      this.model.answered(create, outcome);
      this.#world.seen.push(outcome);
      onOutcome(outcome);
    }, () => this.#world.expect(false, "create() rejected"));
  }

  /** Ends the process. @returns the creates without an outcome */
  kill(): readonly NewPlant[] {
    this.#store.kill();
    return this.model.waiting;
  }

  #sweep(): void {
    if (this.#store.isKilled) return;
    const { time } = this.#world;
    this.#committer.expire();
    this.#health.refresh();
    // Answers reach their clients before the next event.
    time.after(0, () => {
      if (!this.#store.isKilled) this.model.assertNoneOverdue();
    });
    time.after(SWEEP_MS, () => this.#sweep());
  }
}
