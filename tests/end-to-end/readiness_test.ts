import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { PROBE_MS, PROBES_UNSETTLED_MAX } from "../../src/limits.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import {
  eventually,
  isStored,
  occurrences,
  pause,
  PLANT,
} from "../support/load.ts";
import { needs } from "../support/needs.ts";
import {
  assertSucceeded,
  errorOf,
  Program,
  statusOf,
} from "../support/program.ts";
import { testsWith } from "../support/tests.ts";
import { freePort, runTool } from "../support/tools.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { StoreLock } from "../support/temporary.ts";
import { Wire } from "../support/wire.ts";

const onSmallDisk = testsWith(() => new SmallDisk(4), canMount());

const STORE_FAILED = API_ERRORS.storeFailed.error;

/** Returns the files that a process has open, a line each. */
function openFiles(pid: number): Promise<string> {
  // With another process: Deno itself needs all permissions to read /proc.
  return runTool("sh", ["-c", `readlink /proc/${pid}/fd/* || true`]);
}

/** Waits until GET /readyz has a status. */
async function untilReady(program: Program, status: number): Promise<void> {
  await eventually(
    (found) => found === status,
    () => statusOf(program.get("/readyz")),
  );
}

needs("Linux").test(
  "a service does not listen before its store is open",
  async ({ store, start }) => {
    // Keeps the store in the mode in which a second start only has to write.
    await using _first = await start();
    using lock = new StoreLock(store);
    const port = freePort();
    await using program = Program.spawn(["--port", `${port}`, "--kv", store]);
    // It has checked the address and opened the store when it waits for the lock.
    await eventually(
      (files) => files.split("\n").includes(Deno.realPathSync(store)),
      () => openFiles(program.process.pid),
    );
    await assert.rejects(Wire.connect(port), Deno.errors.ConnectionRefused);
    assert.equal(program.stderr, "");
    lock[Symbol.dispose]();
    await program.printed(/listens on/);
    const ready = fetch(`http://127.0.0.1:${port}/readyz`);
    assert.equal(await statusOf(ready), 200);
  },
);

onSmallDisk.test("GET /readyz answers 503 on a full disk, and 200 when there is room again although no create arrives", async (disk) => {
  await using program = await Program.start(["--kv", disk.file("plants.db")]);
  assert.equal(await statusOf(program.get("/readyz")), 200);
  assert.equal(await program.metric("plant_store_up"), 1);
  const { length } = program.stderr;

  const ballast = disk.fill("ballast");
  // Until the probe writes again, the last result is current.
  await untilReady(program, 503);
  const response = await program.get("/readyz");
  assert.equal(response.status, 503);
  // Only the log says why.
  assert.deepEqual(await response.json(), {
    error: STORE_FAILED,
    message:
      "the store failed or timed out, so a create would fail: the log of the service says why",
  });
  assert.equal(await program.metric("plant_store_up"), 0);
  const failing =
    /error: the store fails: .*plants\.db: the disk is full: free some space\n/;
  await program.printed(failing, length);
  assert.deepEqual(
    await errorOf(program.create({ id: 1, name: "x".repeat(10_000) })),
    [503, STORE_FAILED],
  );

  Deno.removeSync(ballast);
  await program.printed(/info: the store has recovered\n/, length);
  assert.equal(await statusOf(program.get("/readyz")), 200);
  assert.equal(await program.metric("plant_store_up"), 1);
  assert.equal(program.stderr.slice(length).trimEnd().split("\n").length, 2);
  const retry = program.create({ id: 1, name: "x".repeat(10_000) });
  assert.equal(await statusOf(retry), 200);
});

withServer.test("creates and GET /readyz are answered 503 whenever a KV Connect server hangs or is away, however long, and succeed when it is back", async ({ directory, ledger }) => {
  const file = directory.file("kv.db");
  await using server = await KvServer.start(file);
  await using program = await Program.start(["--kv", server.url], {
    env: KV_ENV,
  });
  let lastId = 0n;
  const create = () => ledger.send(program, { id: ++lastId, plant: PLANT });
  // More than PROBES_UNSETTLED_MAX seconds of probes, then fewer and creates.
  for (
    const [outage, probes, rounds] of [
      ["hangs", PROBES_UNSETTLED_MAX + 3, 0],
      ["hangs", 1, 2],
      ["is away", 1, 1],
    ] as const
  ) {
    await untilReady(program, 200);
    if (outage === "hangs") server.freeze();
    else await server.kill();
    await untilReady(program, 503);
    for (let i = 0; i < probes; i++) {
      assert.equal(await statusOf(program.get("/readyz")), 503);
      await pause(PROBE_MS);
    }
    // The first creates take all commits that may be in flight.
    for (let i = 0; i < rounds; i++) {
      const failing = await Promise.all(Array.from({ length: 200 }, create));
      for (const { error } of failing) assert.equal(error, STORE_FAILED);
      assert.equal(await statusOf(program.get("/readyz")), 503);
    }
    assert.equal(await program.metric("plant_store_creates_waiting"), 0);
    if (outage === "hangs") server.thaw();
    else await server.restart();
    await untilReady(program, 200);
    assert.ok(isStored(await create()));
  }
  await ledger.settle(program);
  await ledger.replay(program);
  const failing = occurrences(program.stderr, /the store fails/g);
  assert.equal(failing, 3, program.stderr);
  // What Deno's client prints at each retry, unless DENO_LOG silences it.
  assert.doesNotMatch(program.stderr, /^KV Connect/m);
  assertSucceeded(await program.stop());
  await server.kill();
  assert.equal(await ledger.assertFile(file), Number(lastId));
});
