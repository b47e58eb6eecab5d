/** A KV Connect server that is killed under load. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import { DENOKV, KV_ENV, KvServer } from "../support/kv_server.ts";
import {
  drawPlant,
  eventually,
  inParallel,
  isStored,
  Ledger,
  occurrences,
  pause,
  PLANT,
  RECOVERY_MS_MAX,
  residentBytes,
  Tally,
} from "../support/load.ts";
import { Program } from "../support/program.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** A compiled binary prints what Deno's own client prints. */
const IS_BINARY = Deno.env.has("PLANT_STORE");

/** How long the server is away under load. */
const AWAY_SECONDS = numberFromEnv("AWAY_SECONDS", 3);

/** Connections that create while the server is away. */
const CONNECTIONS = 400;

const QUEUE_FULL = API_ERRORS.queueFull.error;
const STORE_FAILED = API_ERRORS.storeFailed.error;

Deno.test({
  name:
    "a KV Connect server that is killed under load causes 503 for creates in time and in bounded memory, and loses nothing",
  ignore: DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const seed = seedOfRun();
    const random = new Random(seed);
    const ledger = new Ledger();
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
    let slowestMs = 0;
    let away: Promise<void> | undefined;
    let residentBefore = 0;
    let residentAfter = 0;
    let othersAnswered = 0;

    async function bringDown(): Promise<void> {
      await server.kill();
      // By then the first waiting creates have reached their deadline.
      await pause(COMMIT_MS_MAX + 1_000);
      residentBefore = await residentBytes(program);
      const untilMs = performance.now() + AWAY_SECONDS * 1_000;
      while (performance.now() < untilMs) {
        const { status, body } = await fetch(`${program.origin}/nowhere`);
        await body?.cancel();
        assert.equal(status, 404);
        othersAnswered++;
        await pause(100);
      }
      residentAfter = await residentBytes(program);
    }

    const load = Array.from({ length: CONNECTIONS }, async () => {
      while (isRunning) {
        const newPlant = { id: ++id, plant: drawPlant(random) };
        const startMs = performance.now();
        const reply = await ledger.send(program, newPlant);
        tally.add(reply);
        slowestMs = Math.max(slowestMs, performance.now() - startMs);
        // A refused client waits, though less than Retry-After demands.
        if (reply.error === QUEUE_FULL) await pause(200);
        if (tally.of(200) >= killAt && away === undefined) {
          away = bringDown().finally(() => isRunning = false);
          // It is awaited below, and may fail before.
          away.catch(() => {});
        }
      }
    });
    await Promise.all(load);
    await away;

    assert.deepEqual(
      Object.keys(tally.counts),
      ["200", String(QUEUE_FULL), String(STORE_FAILED)],
      `SEED=${seed}`,
    );
    assert.ok(tally.of(STORE_FAILED) > 0);
    assert.ok(tally.of(QUEUE_FULL) >= CONNECTIONS);
    assert.ok(slowestMs < COMMIT_MS_MAX + RECOVERY_MS_MAX, `${slowestMs} ms`);
    assert.ok(othersAnswered > AWAY_SECONDS, `${othersAnswered} answered`);
    const grownBytes = residentAfter - residentBefore;
    assert.ok(grownBytes < 64 * 2 ** 20, `grew by ${grownBytes} bytes`);
    const lines = program.stderr.trim().split("\n");
    const clients = lines.filter((line) => line.startsWith("KV Connect"));
    assert.ok(lines.length - clients.length < 20, program.stderr);
    // Deno's client prints at every retry, unless the start task disables it.
    if (!IS_BINARY) assert.deepEqual(clients.slice(0, 3), []);

    await server.restart();
    const restartedMs = performance.now();
    await eventually(
      isStored,
      () => ledger.send(program, { id: ++id, plant: PLANT }),
    );
    const recoveryMs = performance.now() - restartedMs;
    // A create that was answered 503 can be repeated.
    await inParallel(ledger.ambiguous, async ([id, plant]) => {
      const { status } = await ledger.send(program, { id, plant });
      assert.equal(status, 200, `a repeated create of ${id}, SEED=${seed}`);
    });
    await ledger.replay(program);
    await program.printed(/the store has recovered/);
    const failing = occurrences(program.stderr, /the store fails/g);
    assert.equal(failing, 1, program.stderr);
    assert.equal((await program.stop()).status, 0);
    await server.kill();
    const stored = await ledger.assertFile(file);
    const [before, after] = [residentBefore, residentAfter].map((bytes) =>
      (bytes / 2 ** 20).toFixed()
    );
    console.log(
      `seed ${seed}: ${JSON.stringify(tally.counts)}, slowest ` +
        `${slowestMs.toFixed()} ms, ${lines.length} lines, memory ${before} ` +
        `to ${after} MiB, recovered after ${recoveryMs.toFixed()} ms, ` +
        `${stored} stored`,
    );
  },
});
