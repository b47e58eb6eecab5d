import assert from "node:assert/strict";
import { ERROR } from "../../src/errors.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { DENOKV, KV_ENV, KvServer } from "../support/kv_server.ts";
import {
  type Answer,
  drawPlant,
  Ledger,
  occurrences,
  pause,
  residentBytes,
  Tally,
  together,
  until,
} from "../support/load.ts";
import { Program, runProgram, TemporaryDirectory } from "../support/program.ts";

/** A compiled binary is silenced by its environment only, which is not set. */
const IS_BINARY = Deno.env.has("PLANT_STORE");

const PLANT = { name: "Monstera", tag: "climber" };

/** Far more than the service needs, for machines that do other things too. */
const PATIENCE_MS = 15_000;

/** For how long the server is away under load. */
const AWAY_SECONDS = numberFromEnv("AWAY_SECONDS", 8);

/** Connections that create all the while the server is away. */
const CONNECTIONS = 400;

const isStored = ({ status }: Answer) => status === 200;

Deno.test({
  name:
    "serve: of two instances on one KV Connect server one wins each of 1,000 ids",
  ignore: DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const seed = seedOfRun();
    const random = new Random(seed);
    const ledger = new Ledger();
    const file = directory.file("kv.db");
    await using server = await KvServer.start(file);
    await using one = await Program.start(["--kv", server.url], {
      env: KV_ENV,
    });
    await using two = await Program.start(["--kv", server.url], {
      env: KV_ENV,
    });
    const programs: readonly [Program, Program] = [one, two];
    const ids = Array.from({ length: 1_000 }, (_, i) => BigInt(i) - 500n);
    const wins = [0, 0];
    await together(ids, async (id) => {
      const statuses = await Promise.all(programs.map(async (program, i) => {
        const plant = drawPlant(random);
        const name = `${i} ${plant.name}`;
        return (await ledger.send(program, { id, plant: { ...plant, name } }))
          .status;
      }));
      assert.deepEqual(statuses.toSorted(), [200, 409], `${id}, SEED=${seed}`);
      const winner = statuses.indexOf(200);
      wins[winner] = (wins[winner] ?? 0) + 1;
    }, 32);
    assert.ok(wins.every((count) => count > 0), `not a race: ${wins}`);
    for (const program of programs) {
      await ledger.replay(program);
      assert.equal((await program.stop()).status, 0);
    }
    await server.kill();
    assert.equal(await ledger.assertFile(file), ids.length);
  },
});

Deno.test({
  name:
    "serve: a KV Connect server killed under load is 503 in time, in bounded memory and lines, and all is well when it is back",
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

    // Under load the whole time; in its midst the server dies.
    const tally = new Tally();
    const killAt = random.int(500, 2_000);
    let id = 0n;
    let stop = false;
    let slowestMs = 0;
    let away: Promise<void> | undefined;
    let residentBefore = 0;
    let residentAfter = 0;
    let othersAnswered = 0;

    async function bringDown(): Promise<void> {
      await server.kill();
      // The first creates to wait have all been given up by then.
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
      while (!stop) {
        const newPlant = { id: ++id, plant: drawPlant(random) };
        const startMs = performance.now();
        tally.add(await ledger.send(program, newPlant));
        slowestMs = Math.max(slowestMs, performance.now() - startMs);
        if (tally.of(200) >= killAt && away === undefined) {
          away = bringDown().finally(() => stop = true);
          // A fault in it is thrown where it is awaited.
          away.catch(() => {});
        }
      }
    });
    await Promise.all(load);
    await away;

    assert.deepEqual(
      Object.keys(tally.counts),
      ["200", String(ERROR.STORE_FAILED)],
      `SEED=${seed}`,
    );
    assert.ok(tally.of(ERROR.STORE_FAILED) >= CONNECTIONS);
    assert.ok(slowestMs < COMMIT_MS_MAX + PATIENCE_MS, `took ${slowestMs} ms`);
    assert.ok(othersAnswered > AWAY_SECONDS, `${othersAnswered} answered`);
    const grownBytes = residentAfter - residentBefore;
    assert.ok(grownBytes < 64 * 2 ** 20, `grew by ${grownBytes} bytes`);
    const lines = program.stderr.trim().split("\n");
    const clients = lines.filter((line) => line.startsWith("KV Connect"));
    assert.ok(lines.length - clients.length < 20, program.stderr);
    // Deno's own client prints at every try; the start task silences it.
    if (!IS_BINARY) assert.deepEqual(clients.slice(0, 3), []);

    // It is back, and with it every create that was in doubt.
    await server.restart();
    const backMs = performance.now();
    await until(
      isStored,
      () => ledger.send(program, { id: ++id, plant: PLANT }),
      { withinMs: PATIENCE_MS },
    );
    const workingMs = performance.now() - backMs;
    await together(ledger.ambiguous, async ([id, plant]) => {
      const { status } = await ledger.send(program, { id, plant });
      assert.equal(status, 200, `${id} was in doubt, SEED=${seed}`);
    });
    await ledger.replay(program);
    await program.printed(/the store is well again/);
    const failing = occurrences(program.stderr, /the store fails/g);
    assert.equal(failing, 1, program.stderr);
    assert.equal((await program.stop()).status, 0);
    await server.kill();
    const stored = await ledger.assertFile(file);
    console.log(
      `seed ${seed}: ${tally.of(200)} acknowledged before, ` +
        `${tally.of(ERROR.STORE_FAILED)} in doubt, slowest ` +
        `${slowestMs.toFixed()} ms, ${lines.length} lines, memory ` +
        `${(residentBefore / 2 ** 20).toFixed()} to ` +
        `${(residentAfter / 2 ** 20).toFixed()} MiB, working again after ` +
        `${workingMs.toFixed()} ms, ${stored} stored`,
    );
  },
});

Deno.test({
  name:
    "serve: a wrong token for the KV Connect server is one line and status 1",
  ignore: DENOKV === undefined,
  fn: async () => {
    using directory = new TemporaryDirectory();
    await using server = await KvServer.start(directory.file("kv.db"));
    const { status, stderr } = await runProgram(
      ["--port", "0", "--kv", server.url],
      { env: { DENO_KV_ACCESS_TOKEN: "not-the-token" } },
    );
    assert.equal(status, 1);
    assert.match(
      stderr,
      /^plant-store: cannot store anything in http:\/\/127[^\n]*\n$/,
    );
    assert.ok(!stderr.includes("not-the-token"));
  },
});

Deno.test("serve: a KV Connect server that cannot be reached is one line and status 1", async () => {
  const { status, stderr } = await runProgram(
    // Nothing gets this port by chance.
    ["--port", "0", "--kv", "http://127.0.0.1:1"],
    { env: KV_ENV },
  );
  assert.equal(status, 1);
  assert.match(
    stderr,
    /^plant-store: cannot store anything in http:\/\/127[^\n]*\n$/,
  );
});

Deno.test("serve: a KV Connect server that says nothing is one line and status 1", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) connections.push(connection);
  })();
  const { status, stderr } = await runProgram(
    ["--port", "0", "--kv", `http://127.0.0.1:${listener.addr.port}`],
    { env: KV_ENV },
  );
  listener.close();
  await accepting;
  for (const connection of connections) connection.close();
  assert.ok(connections.length > 0, "it never came");
  assert.equal(status, 1);
  assert.match(
    stderr,
    /^plant-store: cannot store anything in http:\/\/127[^\n]*no answer[^\n]*\n$/,
  );
});
