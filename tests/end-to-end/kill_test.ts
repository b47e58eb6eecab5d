import assert from "node:assert/strict";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { drawPlant, inParallel, type Ledger, pause } from "../support/load.ts";
import type { Program } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { drawId } from "../support/transfer.ts";

const ROUNDS = numberFromEnv("KILL_ROUNDS", 6);
const SEED = seedOfRun();

const CONNECTIONS = 64;

/** The kill follows one of so many first replies of a round. */
const KILL_AT_REPLY_MAX = 1_500;
/** Maximum delay between that reply and the kill. */
const KILL_DELAY_MS_MAX = 20;

test("every plant acknowledged before a kill -9 under load is stored and unaltered after it", async ({ store, start, ledger }) => {
  const random = new Random(SEED);
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      await using program = await start();
      await ledger.assertFile(store);
      if (round < ROUNDS) await loadAndKill(program, ledger, random);
    }
  } catch (cause) {
    throw new Error(`with SEED=${SEED} KILL_ROUNDS=${ROUNDS}`, { cause });
  }
  assert.ok(ledger.acknowledged.size >= ROUNDS);
});

/** Sends creates on many connections and kills the program meanwhile. */
async function loadAndKill(
  program: Program,
  ledger: Ledger,
  random: Random,
): Promise<void> {
  const killAt = random.int(1, KILL_AT_REPLY_MAX);
  const delayMs = random.int(0, KILL_DELAY_MS_MAX);
  let replies = 0;
  let cutOff = 0;
  let stopped: Promise<unknown> | undefined;

  function* newPlants() {
    while (cutOff === 0) yield { id: drawId(random), plant: drawPlant(random) };
  }

  await inParallel(newPlants(), async (newPlant) => {
    const { status } = await ledger.send(program, newPlant);
    if (status === 0) cutOff++;
    else assert.equal(status, 200);
    replies++;
    if (replies === killAt) {
      stopped = pause(delayMs).then(() => program.stop("SIGKILL"));
    }
  }, CONNECTIONS);
  await stopped;
  assert.ok(cutOff > 0, "the program was killed without load");
}
