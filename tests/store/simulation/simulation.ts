import { API_ERRORS } from "../../../src/api_errors.ts";
import { AcceptedTokens } from "../../../src/http/auth.ts";
import { SWEEP_MS, WRITE_MS_MAX } from "../../../src/limits.ts";
import type { NewPlant } from "../../../src/plant/plant.ts";
import { Service } from "../../../src/service.ts";
import { PROBE_MS, RECOVERY_MS_MIN } from "../../../src/store/health.ts";
import { Log } from "../../../src/telemetry/log.ts";
import { toJson } from "../../support/plants.ts";
import { newRequest, TOKENS } from "../../support/service.ts";
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
  "stored",
  "replayed",
  "conflict",
  "failed",
  "restarted",
  "recovered",
  "full",
  "locked",
  "large batch",
  "large plants",
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
  /** Those that run. */
  readonly #instances: SimulatedInstance[] = [];
  readonly #killed: SimulatedInstance[] = [];
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
    world.calmMs = lastMs + WRITE_MS_MAX + 2 * SWEEP_MS;
    const checkMs = world.calmMs + OPERATION_MS_MAX + RECOVERY_MS_MAX;
    world.time.at(checkMs, () => this.#checkRecovery());
    while (await world.time.advance(checkMs + 2 * SWEEP_MS)) {
      for (const { model } of this.#instances) model.assertStep();
      world.assertNone();
    }
    for (const { model } of this.#instances) {
      world.expect(model.waiting.length === 0, "never answered a create");
    }
    await this.#checkCounts();
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
    instance?.create(newPlant, (answer) => {
      const isFailed = answer === API_ERRORS.storeFailed.error;
      this.#world.expect(
        !isFailed || trouble + silence > 0,
        "answered that the store failed without a fault",
      );
      const chance = isFailed ? REPEATED_FAILURES : repeats / 2;
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
    const instance = this.#instances[index];
    if (instance === undefined) return;
    this.#killed.push(instance);
    for (const newPlant of instance.kill()) {
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
      instance.create(newPlant, (answer) => {
        world.seen.push("recovered");
        world.expect(answer === 200, `${answer} after recovery`);
      });
    }
  }

  /** Checks that all instances together have counted no plant as stored twice. */
  async #checkCounts(): Promise<void> {
    const { landed, seen, expect } = this.#world;
    let stored = 0;
    for (const instance of [...this.#instances, ...this.#killed]) {
      for (const [outcome, count] of await instance.counts()) {
        if (count > 0) seen.push(outcome);
        if (outcome === "stored") stored += count;
      }
    }
    const most = landed.size;
    expect(stored <= most, `${stored} creates stored ${most} plants`);
  }
}

/** One process of the service, without a server. */
class SimulatedInstance {
  readonly model: InstanceModel;
  readonly #world: World;
  readonly #store: SimulatedStore;
  readonly #service: Service;

  constructor(world: World) {
    const { time } = world;
    this.#world = world;
    this.model = new InstanceModel(world);
    this.#store = new SimulatedStore(world, this.model);
    this.#service = new Service({
      store: this.#store,
      tokens: new AcceptedTokens(TOKENS),
      log: new Log("text", (entry) => world.expect(false, `logged ${entry}`)),
      baseUrl: "http://plants.test",
      onHealthChange: (error) => this.model.reported(error?.message),
      clock: () => time.nowMs,
      // The operations themselves take time.
      pause: () => Promise.resolve(),
    });
    time.after(world.random.int(1, SWEEP_MS), () => this.#sweep());
  }

  /** Sends a create. @param onAnswer is called with 200 or the error number */
  async create(
    newPlant: NewPlant,
    onAnswer: (answer: number) => void,
  ): Promise<void> {
    const create = this.model.create(newPlant);
    const response = await this.#service.handle(newRequest(toJson(newPlant)));
    const answer = response.ok ? 200 : (await response.json()).error;
    if (this.#store.isKilled) return;
    this.model.answered(create, answer);
    onAnswer(answer);
  }

  /** Ends the process. @returns the creates without an answer */
  kill(): readonly NewPlant[] {
    this.#store.kill();
    return this.model.waiting;
  }

  /** Returns the number of creates by outcome. */
  async counts(): Promise<readonly (readonly [string, number])[]> {
    const request = newRequest("", { method: "GET", target: "/metrics" });
    const response = await this.#service.handle(request);
    const text = await response.text();
    return [...text.matchAll(/_creates_total\{outcome="(\w+)"\} (\d+)/g)]
      .map(([, outcome = "", count]) => [outcome, Number(count)]);
  }

  #sweep(): void {
    if (this.#store.isKilled) return;
    const { time } = this.#world;
    this.#service.sweep();
    // Answers reach their clients before the next event.
    time.after(0, () => {
      if (!this.#store.isKilled) this.model.assertNoneOverdue();
    });
    time.after(SWEEP_MS, () => this.#sweep());
  }
}
