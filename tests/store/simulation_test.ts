import assert from "node:assert/strict";
import { numberFromEnv, seedOfRun } from "../support/random.ts";
import type { Seen } from "../support/simulated_store.ts";
import { REACHED, simulate } from "../support/simulation.ts";

// SEED=n SCHEDULES=1 repeats one schedule.
const SCHEDULES = numberFromEnv("SCHEDULES", 3_000);
const SEED = seedOfRun();

/** Seeds are 32 bits. */
const SEEDS = 2 ** 32;

/** Fewest schedules that reach everything, whatever their seed. */
const COMPLETE_SCHEDULES_MIN = 1_000;

/** Schedules of a run on demand, which prints what it reached. */
const LONG_SCHEDULES_MIN = 10_000;

Deno.test("no schedule of creates and faults makes two committers break a promise", async () => {
  const seen: Seen = new Map();
  for (let i = 0; i < SCHEDULES; i++) {
    const seed = (SEED + i) % SEEDS;
    try {
      await simulate(seed, seen);
    } catch (error) {
      throw new Error(`repeat with SEED=${seed} SCHEDULES=1`, { cause: error });
    }
  }
  if (SCHEDULES >= LONG_SCHEDULES_MIN) console.log({ SEED, SCHEDULES, seen });
  if (SCHEDULES < COMPLETE_SCHEDULES_MIN) return;
  assert.deepEqual([...seen.keys()].toSorted(), REACHED.toSorted());
});

Deno.test("a schedule repeats with its seed", async () => {
  const [first, second]: [Seen, Seen] = [new Map(), new Map()];
  for (let seed = SEED; seed < SEED + 20; seed++) {
    await simulate(seed % SEEDS, first);
    await simulate(seed % SEEDS, second);
  }
  assert.deepEqual(second, first);
});
