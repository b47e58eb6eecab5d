import type { NewPlant, Plant } from "../../../src/plant/plant.ts";
import { isRight } from "../../support/history.ts";
import { LONGEST_PLANTS, SIMILAR_PLANTS } from "../../support/plants.ts";
import { Random } from "../../support/random.ts";
import { VirtualTime } from "./virtual_time.ts";

/** How a schedule is drawn. */
interface Shape {
  readonly instances: number;
  readonly plantsMax: number;
  readonly inFlightMax: number;
  readonly ids: number;
  readonly plants: readonly Plant[];
  readonly creates: number;
  /** Share of operations that fail or are late. */
  readonly trouble: number;
  /** Share of operations that never end. */
  readonly silence: number;
  /** Share of creates that are sent together with the one before. */
  readonly burst: number;
  /** Share of creates that repeat one that was sent before. */
  readonly repeats: number;
  /** Share of creates whose id another program writes, too. */
  readonly others: number;
  /** How often an instance is killed and started again. */
  readonly restarts: number;
}

function drawShape(random: Random): Shape {
  const crowd = random.chance(0.25);
  return {
    instances: random.pick([1, 2]),
    plantsMax: random.pick([1, 2, 3, 10, 100]),
    inFlightMax: random.pick([1, 2, 2, 3, 16]),
    ids: crowd ? random.int(20, 60) : random.int(1, 6),
    plants: random.pick([SIMILAR_PLANTS, SIMILAR_PLANTS, LONGEST_PLANTS]),
    creates: crowd ? random.int(40, 80) : random.int(5, 40),
    trouble: random.pick([0, 0.2, 0.5, 0.9]),
    silence: random.pick([0, 0, 0.02, 0.1]),
    burst: crowd ? 0.95 : random.pick([0.2, 0.6, 0.9]),
    repeats: random.pick([0, 0.3, 0.6]),
    others: random.pick([0, 0, 0.1, 0.3]),
    restarts: random.pick([0, 0, 1, 4]),
  };
}

/** What all clients and instances of a schedule share. */
export class World {
  readonly random: Random;
  readonly shape: Shape;
  readonly time = new VirtualTime();
  /** What is on disk; `null` for the value of another program. */
  readonly file = new Map<bigint, Plant | null>();
  /** From now on clients send nothing, and nothing fails. */
  calmMs = Infinity;
  /** What the schedule reached, in order. */
  readonly seen: string[] = [];
  /** The ids of the plants that instances have written. */
  readonly landed = new Set<bigint>();
  #violation: string | undefined;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.shape = drawShape(this.random);
  }

  /** How often operations of the stores go wrong now. */
  get faults(): { readonly trouble: number; readonly silence: number } {
    const isCalm = this.time.nowMs >= this.calmMs;
    return isCalm ? { trouble: 0, silence: 0 } : this.shape;
  }

  /** Records a violation of what the service promises; the first one counts. */
  readonly expect = (holds: boolean, otherwise: string): void => {
    if (holds) return;
    this.#violation ??= `at ${this.time.nowMs.toFixed(1)} ms: ${otherwise}`;
  };

  /** Throws if there was a violation: the committer would catch it earlier. */
  assertNone(): void {
    if (this.#violation !== undefined) throw new Error(this.#violation);
  }

  /** Checks an answer with what is on disk at this moment. */
  answered({ id, plant }: NewPlant, answer: number): void {
    const value = this.file.get(id);
    if (isRight({ plant, isChange: false, answer }, value)) return;
    const stored = Deno.inspect(value);
    this.expect(false, `${answer} for ${id}, with ${stored} in the store`);
  }
}
