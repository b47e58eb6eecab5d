/**
 * A power cut loses no acknowledged plant. The tests record runs of the program
 * with strace and rebuild what the disk may hold after a power cut at any
 * moment; see disk_images.ts for the model.
 */
import assert from "node:assert/strict";
import { errorMessage } from "../../src/messages.ts";
import { eventually, inParallel, Ledger } from "../support/load.ts";
import { Program } from "../support/program.ts";
import {
  acknowledgedAt,
  drawPowerCuts,
  dropSyncs,
  during,
  findProblem,
  ImageDirectory,
  type PowerCut,
} from "../support/power_cuts.ts";
import {
  hasSucceeded,
  recordImport,
  type Recording,
  recordService,
  STORE,
} from "../support/power_cut_runs.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { CAN_RECORD } from "../support/recorder.ts";
import {
  assertSameLines,
  exportLines,
  importFile,
  writeLines,
} from "../support/transfer.ts";

// SEED repeats the plants and the choices, but not the schedule of a run.
const POWER_CUTS = numberFromEnv("POWER_CUTS", 150);
const SEED = seedOfRun();

/** The parts of the power cuts that come during a backup or an import. */
const BACKUP_SHARE = 0.1;
const IMPORT_SHARE = 0.2;

/** Power cuts in one recorded run. */
const CUTS_MAX = 2_500;

/** One of so many images is also checked with the program itself. */
const PROGRAM_EVERY = 100;

/** Latest acknowledged creates that are repeated then. */
const REPLAYED = 100;

/** Images that are checked at one time. */
const AT_A_TIME = 3;

/** Power cuts to find that lose plants, and how many may be needed. */
const LOSSES_MIN = 3;
const LOSSY_CUTS_MAX = 3_000;

/** The part of the syncs that have no effect then. */
const DROPPED_SHARE = 1 / 30;

/** The service is recorded once, for several tests. */
let recorded: Promise<Recording> | undefined;

function firstRecording(): Promise<Recording> {
  recorded ??= recordService(new Random(SEED));
  return recorded;
}

/**
 * Cuts the power in a recording, and asserts that no image has a problem.
 * @param runProgram runs the program with one of {@link PROGRAM_EVERY} images
 */
async function cutPower(
  recording: Recording,
  cuts: number,
  runProgram: (cut: PowerCut) => Promise<void>,
): Promise<void> {
  const random = new Random(SEED + recording.events.length);
  let count = 0;
  const problems: string[] = [];
  await inParallel(drawPowerCuts(recording, cuts, random), async (cut) => {
    const isSample = count++ % PROGRAM_EVERY === 0;
    const problem = await findProblem(recording, cut) ??
      (isSample ? await errorOf(runProgram(cut)) : undefined);
    if (problem === undefined) return;
    const { stage, moment, loss, image } = cut;
    // The first image is kept.
    const kept = problems.length === 0
      ? `; the files are in ${new ImageDirectory(image).path}`
      : "";
    problems.push(`${stage}, event ${moment}, ${loss}: ${problem}${kept}`);
  }, AT_A_TIME);
  const first = problems.slice(0, 5).join("\n");
  assert.equal(problems.length, 0, `SEED=${SEED}, ${count} cuts: ${first}`);
}

/** Returns the message of the error that something rejects with. */
function errorOf(work: Promise<void>): Promise<string | undefined> {
  return work.then(() => undefined, errorMessage);
}

/** Counts the checkpoints: each syncs the database once, as its creation does. */
function countCheckpoints({ events }: Recording): number {
  return events.filter((event) =>
    event.kind === "sync ended" && event.path === STORE
  ).length - 1;
}

/** Splits a number of power cuts among runs. */
function cutsOfRuns(cuts: number): number[] {
  const runs = Math.ceil(cuts / CUTS_MAX);
  return Array.from({ length: runs }, () => Math.ceil(cuts / runs));
}

/** Starts the service with an image; it has the plants and stores another. */
async function assertServes(
  recording: Recording,
  { moment, image }: PowerCut,
): Promise<void> {
  using directory = new ImageDirectory(image);
  await using program = await Program.start(["--kv", directory.store]);
  const ledger = new Ledger();
  const acknowledged = acknowledgedAt(recording, moment).slice(-REPLAYED);
  for (const { id, plant } of acknowledged) ledger.acknowledged.set(id, plant);
  await ledger.replay(program);
  const plant = { name: "After the power cut" };
  const { status } = await ledger.send(program, { id: 1n, plant });
  assert.equal(status, 200);
  assert.equal((await program.stop()).status, 0);
}

Deno.test({
  name:
    "every plant acknowledged before a power cut is stored after it, whenever the power is cut",
  ignore: !CAN_RECORD,
  fn: async () => {
    const cuts = POWER_CUTS * (1 - BACKUP_SHARE - IMPORT_SHARE);
    for (const [run, count] of cutsOfRuns(cuts).entries()) {
      const recording = run === 0
        ? await firstRecording()
        : await recordService(new Random(SEED + run));
      assert.ok(countCheckpoints(recording) >= 2);
      const service = during(recording, /^(?!backup)/);
      await cutPower(service, count, (cut) => assertServes(recording, cut));
    }
  },
});

Deno.test({
  name: "a backup is complete, or missing after a power cut",
  ignore: !CAN_RECORD,
  fn: async () => {
    const recording = await firstRecording();
    await cutPower(
      during(recording, /^backup/),
      Math.ceil(POWER_CUTS * BACKUP_SHARE),
      (cut) => assertServes(recording, cut),
    );
  },
});

Deno.test({
  name: "an import can be repeated after a power cut",
  ignore: !CAN_RECORD,
  fn: async () => {
    const cuts = POWER_CUTS * IMPORT_SHARE;
    for (const [run, count] of cutsOfRuns(cuts).entries()) {
      const recording = await recordImport(new Random(SEED + run));
      const { lines } = recording;
      await cutPower(recording, count, async ({ image }) => {
        using directory = new ImageDirectory(image);
        const file = writeLines(`${directory.path}/lines`, lines);
        await eventually(
          hasSucceeded,
          () => importFile(directory.store, file),
        );
        const stored = await exportLines(directory.store);
        assertSameLines(stored.toSorted(), lines.toSorted());
      });
    }
  },
});

Deno.test({
  name:
    "power cuts lose acknowledged plants if one sync in thirty has no effect",
  ignore: !CAN_RECORD,
  fn: async () => {
    const random = new Random(SEED);
    const recording = during(await firstRecording(), /load/);
    let cuts = 0;
    let losses = 0;
    while (losses < LOSSES_MIN && cuts < LOSSY_CUTS_MAX) {
      const events = dropSyncs(recording.events, DROPPED_SHARE, random);
      const lossy = { ...recording, events };
      await inParallel(drawPowerCuts(lossy, 50, random), async (cut) => {
        if (losses >= LOSSES_MIN) return;
        cuts++;
        if (await findProblem(lossy, cut) !== undefined) losses++;
      }, AT_A_TIME);
    }
    assert.ok(losses >= LOSSES_MIN, "the power cuts do not find dropped syncs");
  },
});
