/** A KV Connect server that is killed under load. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import {
  drawPlant,
  eventually,
  isStored,
  occurrences,
  pause,
  PLANT,
  residentBytes,
  Tally,
} from "../support/load.ts";
import { Program, statusOf } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";

/** A compiled binary prints what Deno's own client prints. */
const IS_BINARY = Deno.env.has("PLANT_STORE");

/** Other requests under load while the server is away. */
const AWAY_REQUESTS = 20;

/** Connections that create while the server is away. */
const CONNECTIONS = 400;

const STORE_FAILED = API_ERRORS.storeFailed.error;

withServer.test("a KV Connect server that is killed under load causes 503 for creates in bounded memory, and loses nothing", async ({ directory, ledger }) => {
  const seed = seedOfRun();
  const random = new Random(seed);
  const file = directory.file("kv.db");
  await using server = await KvServer.start(file);
  await using program = await Program.start(["--kv", server.url], {
    env: KV_ENV,
  });

  // The load continues while the server is away.
  const tally = new Tally();
  const killAt = random.int(500, 2_000);
  let id = 0n;
  let isRunning = true;
  let away: Promise<void> | undefined;

  async function bringDown(): Promise<void> {
    await server.kill();
    // Every connection has had a create that reached its deadline.
    await eventually(
      (failed) => failed >= CONNECTIONS,
      () => tally.of(STORE_FAILED),
    );
    const before = await residentBytes(program);
    for (let i = 0; i < AWAY_REQUESTS; i++) {
      assert.equal(await statusOf(program.get("/nowhere")), 404);
      await pause(100);
    }
    const grownBytes = await residentBytes(program) - before;
    assert.ok(grownBytes < 64 * 2 ** 20, `grew by ${grownBytes} bytes`);
  }

  const load = Array.from({ length: CONNECTIONS }, async () => {
    while (isRunning) {
      const newPlant = { id: ++id, plant: drawPlant(random) };
      const reply = await ledger.send(program, newPlant);
      tally.add(reply);
      if (reply.status === 0) isRunning = false;
      if (tally.of(200) >= killAt && away === undefined) {
        away = bringDown().finally(() => isRunning = false);
        // It is awaited below, and may fail before.
        away.catch(() => {});
      }
    }
  });
  await Promise.all(load);
  await away;

  const replies = Object.keys(tally.counts);
  assert.deepEqual(replies, ["200", `${STORE_FAILED}`], `SEED=${seed}`);
  const lines = program.stderr.trim().split("\n");
  const clients = lines.filter((line) => line.startsWith("KV Connect"));
  assert.ok(lines.length - clients.length < 20, program.stderr);
  // Deno's client prints at every retry, unless the start task disables it.
  if (!IS_BINARY) assert.deepEqual(clients.slice(0, 3), []);

  await server.restart();
  await eventually(
    isStored,
    () => ledger.send(program, { id: ++id, plant: PLANT }),
  );
  // A create that was answered 503 can be repeated.
  await ledger.settle(program);
  await ledger.replay(program);
  await program.printed(/the store has recovered/);
  const failing = occurrences(program.stderr, /the store fails/g);
  assert.equal(failing, 1, program.stderr);
  assert.equal((await program.stop()).status, 0);
  await server.kill();
  await ledger.assertFile(file);
});
