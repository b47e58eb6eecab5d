/**
 * A power cut loses no acknowledged plant. The tests record programs with strace
 * and rebuild what the disk may hold after a power cut at any moment; see
 * disk.ts for the model.
 */
import assert from "node:assert/strict";
import { inParallel } from "../support/load.ts";
import {
  assertServes,
  assertSurvives,
  drawPowerCuts,
  ImageDirectory,
  type PowerCut,
  powerCutsAfterNames,
  record,
  type Recording,
} from "../support/power_cuts.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { withStrace } from "../support/strace.ts";

// SEED repeats the plants and the choices, but not the schedule of a run.
/** Power cuts at random moments; others come right after each change of a name. */
const POWER_CUTS = numberFromEnv("POWER_CUTS", 20);
const SEED = seedOfRun();

/** Random power cuts in one recorded run. */
const CUTS_MAX = 2_500;

/** Images that are checked at one time. */
const AT_A_TIME = 3;

/** Random power cuts below which the row after changes of names is sampled. */
const SHARE_CUTS_MAX = 100;

/** Power cuts that may be needed to find one that loses plants. */
const LOSSY_CUTS_MAX = 3_000;

/** The part of the syncs that have no effect then. */
const DROPPED_SHARE = 1 / 30;

/** Returns the power cuts right after changes of names, and random ones. */
function* powerCuts(
  recording: Recording,
  random: Random,
  count: number,
): Generator<PowerCut> {
  // A short run takes a third of them.
  const share = count < SHARE_CUTS_MAX ? 3 : 1;
  let i = SEED;
  for (const cut of powerCutsAfterNames(recording)) {
    if (i++ % share === 0) yield cut;
  }
  yield* drawPowerCuts(recording, random).take(count);
}

/** Runs a part of a test; an error names the variables that repeat it. */
async function repeatable<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw new Error(`with SEED=${SEED} POWER_CUTS=${POWER_CUTS}`, { cause });
  }
}

/** The first run, which is recorded once for both tests. */
let first: Recording | undefined;

withStrace.test("a power cut at any moment loses no acknowledged plant, no reported backup and no restored store", async () => {
  for (let run = 0; run < POWER_CUTS / CUTS_MAX; run++) {
    const random = new Random(SEED + run);
    const recording = await repeatable(() => record(random));
    first ??= recording;
    const cuts = Math.min(CUTS_MAX, POWER_CUTS - run * CUTS_MAX);
    let isServed = false;
    await inParallel(powerCuts(recording, random, cuts), async (cut) => {
      try {
        await assertSurvives(recording, cut);
        if (isServed) return;
        isServed = true;
        await assertServes(cut);
      } catch (cause) {
        const { path } = new ImageDirectory(cut.image);
        const where =
          `${cut.stage}, ${cut.at}, SEED=${SEED} POWER_CUTS=${POWER_CUTS}`;
        throw new Error(`${where}: the files are in ${path}`, { cause });
      }
    }, AT_A_TIME);
  }
});

withStrace.test("power cuts lose acknowledged plants if one sync in thirty has no effect", () =>
  repeatable(async () => {
    const random = new Random(SEED);
    const recording = first ?? await record(random);
    let hasLost = false;
    for (let cuts = 0; !hasLost; cuts += 50) {
      assert.ok(cuts < LOSSY_CUTS_MAX, "no power cut finds dropped syncs");
      const stages = recording.stages.slice(0, 1).map((stage) => ({
        ...stage,
        calls: stage.calls.filter(({ name }) =>
          !/^f(data)?sync$/.test(name) || !random.chance(DROPPED_SHARE)
        ),
      }));
      const images = drawPowerCuts({ ...recording, stages }, random).take(50);
      await inParallel(images, async (cut) => {
        if (hasLost) return;
        await assertSurvives(recording, cut).catch(() => hasLost = true);
      }, AT_A_TIME);
    }
  }));
