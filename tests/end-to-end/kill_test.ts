import assert from "node:assert/strict";
import type { NewPlant } from "../../src/plant/plant.ts";
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
  const ids: bigint[] = [];
  try {
    let before: readonly NewPlant[] = [];
    for (let round = 1; round <= ROUNDS + 1; round++) {
      await using program = await start();
      await ledger.replay(program, before);
      if (round > ROUNDS) break;
      const known = ledger.acknowledged.size;
      await loadAndKill(program, { ledger, ids, random });
      before = [...ledger.acknowledged.values().drop(known)];
    }
    await ledger.assertFile(store);
  } catch (error) {
    throw new Error(`with SEED=${SEED} KILL_ROUNDS=${ROUNDS}`, {
      cause: error,
    });
  }
  assert.ok(ledger.acknowledged.size >= ROUNDS);
});

/** The state of all rounds. */
interface Run {
  readonly ledger: Ledger;
  /** Every id used so far. */
  readonly ids: bigint[];
  readonly random: Random;
}

/** Sends creates on many connections and kills the program meanwhile. */
async function loadAndKill(
  program: Program,
  { ledger, ids, random }: Run,
): Promise<void> {
  const killAt = random.int(1, KILL_AT_REPLY_MAX);
  const delayMs = random.int(0, KILL_DELAY_MS_MAX);
  let replies = 0;
  let cutOff = 0;
  let stopped: Promise<unknown> | undefined;

  function* newPlants() {
    while (cutOff === 0) {
      // Some ids are sent with two plants at about the same time.
      const last = ids.at(-random.int(1, CONNECTIONS));
      const again = last !== undefined && random.chance(0.1);
      const id = again ? last : drawId(random);
      if (!again) ids.push(id);
      yield { id, plant: drawPlant(random) };
    }
  }

  await inParallel(newPlants(), async (newPlant) => {
    const { status } = await ledger.send(program, newPlant);
    if (status === 0) cutOff++;
    else assert.ok(status === 200 || status === 409, `answered ${status}`);
    replies++;
    if (replies === killAt) {
      stopped = pause(delayMs).then(() => program.stop("SIGKILL"));
    }
  }, CONNECTIONS);
  await stopped;
  assert.ok(cutOff > 0, "the program was killed without load");
}
