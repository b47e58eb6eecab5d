import assert from "node:assert/strict";
import { numberFromEnv, seedOfRun } from "../support/random.ts";
import { type Seen, simulate } from "../support/simulation.ts";

// SEED=n SCHEDULES=1 runs one schedule again.
const SCHEDULES = numberFromEnv("SCHEDULES", 3_000);
const SEED = seedOfRun();

/** Runs whose seeds do not overlap are this far apart. */
const SEEDS = 2 ** 32;

Deno.test("committer: no schedule of creates and faults makes the store lie", async () => {
  const seen: Seen = { outcomes: new Map(), courses: new Map(), batchMax: 0 };
  for (let i = 0; i < SCHEDULES; i++) {
    const seed = (SEED + i) % SEEDS;
    try {
      await simulate(seed, seen);
    } catch (error) {
      throw new Error(`replay with SEED=${seed} SCHEDULES=1`, { cause: error });
    }
  }

  // A run this long reaches all that it is for, whatever its seed.
  if (SCHEDULES < 1_000) return;
  for (const outcome of ["stored", "replayed", "conflict", "failed"]) {
    assert.ok(seen.outcomes.has(outcome), `no create was answered ${outcome}`);
  }
  assert.equal(seen.courses.size, 15, [...seen.courses.keys()].join());
  assert.ok(seen.batchMax > 12, `no batch was larger than ${seen.batchMax}`);
});

Deno.test("committer: a schedule repeats with its seed", async () => {
  const first: Seen = { outcomes: new Map(), courses: new Map(), batchMax: 0 };
  const second: Seen = { outcomes: new Map(), courses: new Map(), batchMax: 0 };
  for (let seed = SEED; seed < SEED + 20; seed++) {
    await simulate(seed % SEEDS, first);
    await simulate(seed % SEEDS, second);
  }
  assert.deepEqual(second, first);
});
