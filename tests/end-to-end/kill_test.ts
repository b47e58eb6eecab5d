import assert from "node:assert/strict";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { drawPlant, Ledger, pause, together } from "../support/load.ts";
import { Program, TemporaryDirectory } from "../support/program.ts";

// The moments of the kills and the plants come from the seed.
const ROUNDS = numberFromEnv("KILL_ROUNDS", 10);
const SEED = seedOfRun();

const CONNECTIONS = 64;
/** The latest kill, counted in replies. */
const REPLIES_MAX = 1_500;
/** How many milliseconds after that reply it may come. */
const AFTER_MS_MAX = 20;

Deno.test("serve: what was acknowledged before a kill -9 under load is there and whole after it", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const random = new Random(SEED);
  const ledger = new Ledger();
  const ids: bigint[] = [];
  let killed = 0;
  try {
    let before = new Set<bigint>();
    for (let round = 1; round <= ROUNDS + 1; round++) {
      await using program = await Program.start(["--kv", path]);
      await ledger.replay(program, before);
      if (round > ROUNDS) break;
      const known = new Set(ledger.acknowledged.keys());
      killed += await loadAndKill(program, { ledger, ids, random });
      before = new Set(ledger.acknowledged.keys()).difference(known);
    }
    const stored = await ledger.assertFile(path);
    console.log(
      `seed ${SEED}: ${ROUNDS} kills, ${ledger.acknowledged.size} plants ` +
        `acknowledged, ${stored} stored, ${killed} creates cut off`,
    );
  } catch (error) {
    throw new Error(`with SEED=${SEED} KILL_ROUNDS=${ROUNDS}`, {
      cause: error,
    });
  }
  assert.ok(ledger.acknowledged.size >= ROUNDS);
});

interface Run {
  readonly ledger: Ledger;
  /** Every id used so far. */
  readonly ids: bigint[];
  readonly random: Random;
}

/**
 * Sends creates on many connections and kills the program in their midst.
 * @returns how many were cut off
 */
async function loadAndKill(
  program: Program,
  { ledger, ids, random }: Run,
): Promise<number> {
  const killAt = random.int(1, REPLIES_MAX);
  const afterMs = random.int(0, AFTER_MS_MAX);
  let replies = 0;
  let cutOff = 0;
  let stopped: Promise<unknown> | undefined;

  function* newPlants() {
    while (cutOff === 0) {
      // Some ids are sent as two plants at about the same time.
      const last = ids.at(-random.int(1, CONNECTIONS));
      const again = last !== undefined && random.chance(0.1);
      const id = again
        ? last
        : BigInt(random.int(0, 2 ** 32 - 1)) * (2n ** 31n) - 2n ** 62n +
          BigInt(ids.length);
      if (!again) ids.push(id);
      yield { id, plant: drawPlant(random) };
    }
  }

  await together(newPlants(), async (newPlant) => {
    const { status } = await ledger.send(program, newPlant);
    if (status === 0) cutOff++;
    else assert.ok(status === 200 || status === 409, `answered ${status}`);
    replies++;
    if (replies === killAt) {
      stopped = pause(afterMs).then(() => program.stop("SIGKILL"));
    }
  }, CONNECTIONS);
  await stopped;
  assert.ok(cutOff > 0, "the program was killed without load");
  return cutOff;
}
