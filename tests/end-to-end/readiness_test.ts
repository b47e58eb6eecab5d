import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { StoreLock } from "../support/accidents.ts";
import { KV_ENV, KvServer } from "../support/kv_server.ts";
import { isStored, Ledger } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { WHOLE } from "../support/plants.ts";
import {
  assertRecovered,
  assertSucceeded,
  Program,
  replyStatus,
  untilReady,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { freePort, runTool } from "../support/tools.ts";
import { eventually } from "../support/waiting.ts";
import { Wire } from "../support/wire.ts";

/** Returns the files that a process has open, a line each. */
function openFiles(pid: number): Promise<string> {
  // With another process: Deno itself needs all permissions to read /proc.
  return runTool("sh", ["-c", `readlink /proc/${pid}/fd/* || true`]);
}

Deno.test({
  name: "a service does not listen before its store is open",
  ignore: isMissing("Linux"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    // Keeps the store in the mode in which a second start only has to write.
    await using _first = await Program.start(store);
    using lock = new StoreLock(store);
    const port = freePort();
    await using program = Program.spawn(["--port", `${port}`, "--kv", store]);
    // It has checked the address and opened the store when it waits for the lock.
    await eventually(
      () => openFiles(program.process.pid),
      (files) => files.split("\n").includes(Deno.realPathSync(store)),
    );
    await assert.rejects(Wire.connect(port), Deno.errors.ConnectionRefused);
    assert.equal(program.stderr, "");
    lock.release();
    await program.printed(/listens on/);
    await untilReady({ origin: `http://127.0.0.1:${port}` });
  },
});

Deno.test({
  name:
    "creates and GET /readyz are answered 503 while a KV Connect server hangs or is away, and succeed when it is back",
  ignore: isMissing("DENOKV"),
  async fn() {
    using directory = new TemporaryDirectory();
    const ledger = new Ledger();
    const file = directory.file("kv.db");
    await using server = await KvServer.start(file);
    await using program = await Program.start(server.url, {
      env: KV_ENV,
    });
    let lastId = 0n;
    const create = () => ledger.send(program, { id: ++lastId, plant: WHOLE });
    for (
      const [fail, recover] of [
        [() => server.freeze(), () => server.thaw()],
        [() => server.kill(), () => server.restart()],
      ] as const
    ) {
      assert.ok(isStored(await create()));
      await fail();
      await untilReady(program, 503);
      // More than all commits that may be in flight.
      const failing = await Promise.all(Array.from({ length: 400 }, create));
      const expected = API_ERRORS.storeFailed.error;
      for (const { error } of failing) assert.equal(error, expected);
      assert.equal(await replyStatus(program.get("/readyz")), 503);
      assert.equal(await program.metric("plant_store_creates_running"), 0);
      await recover();
      await untilReady(program);
    }
    await ledger.settle(program);
    const ended = await program.stop();
    assertSucceeded(ended);
    assertRecovered(ended);
    // What Deno's client prints at each retry, unless DENO_LOG silences it.
    assert.doesNotMatch(ended.stderr, /^KV Connect/m);
    await server.kill();
    assert.equal(await ledger.assertFile(file), Number(lastId));
  },
});
