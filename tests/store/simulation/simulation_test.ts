/**
 * Random creates, sent to one or two instances of the service while their store
 * fails. What an arrow points to is used:
 *
 *     simulation.ts -> the real Service   one for each instance, between both:
 *       |  sends the creates                |
 *       |                                   v
 *       |                              simulated_store.ts   operations that fail, hang
 *       v                                   |               or are late
 *     model.ts                              v
 *       what an instance may answer    simulated_world.ts   what is on disk, the draws,
 *                                           |               and what was reached
 *                                           v
 *                                      virtual_time.ts      events in their order
 */
import assert from "node:assert/strict";
import { numberFromEnv, seedOfRun } from "../../support/random.ts";
import { REACHED, simulate } from "./simulation.ts";

// SEED=n SCHEDULES=1 repeats one schedule.
const SCHEDULES = numberFromEnv("SCHEDULES", 3_000);
const SEED = seedOfRun();

/** Seeds are 32 bits. */
const SEEDS = 2 ** 32;

/** Fewest schedules that reach everything, whatever their seed. */
const COMPLETE_SCHEDULES_MIN = 1_000;

Deno.test("no schedule of creates and faults makes two instances of the service break a promise", async () => {
  const reached = new Set<string>();
  for (let i = 0; i < SCHEDULES; i++) {
    const seed = (SEED + i) % SEEDS;
    try {
      for (const it of await simulate(seed)) reached.add(it);
    } catch (error) {
      throw new Error(`repeat with SEED=${seed} SCHEDULES=1`, { cause: error });
    }
  }
  if (SCHEDULES < COMPLETE_SCHEDULES_MIN) return;
  assert.deepEqual([...reached].toSorted(), REACHED.toSorted());
});

Deno.test("a schedule repeats with its seed", async () => {
  for (let seed = SEED; seed < SEED + 20; seed++) {
    const [first, second] = [await simulate(seed), await simulate(seed)];
    assert.deepEqual(first, second, `with SEED=${seed}`);
  }
});
