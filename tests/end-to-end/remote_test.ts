/** A KV Connect server that hangs. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { QUEUE_MS_MAX } from "../../src/limits.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import { eventually, isStored, pause, PLANT } from "../support/load.ts";
import { Program } from "../support/program.ts";

const QUEUE_FULL = API_ERRORS.queueFull.error;
const STORE_FAILED = API_ERRORS.storeFailed.error;

withServer.test("a KV Connect server that hangs causes 503 for creates at once, and they succeed when it continues", async ({ directory, ledger }) => {
  const file = directory.file("kv.db");
  await using server = await KvServer.start(file);
  await using program = await Program.start(["--kv", server.url], {
    env: KV_ENV,
  });
  let lastId = 0n;
  const create = () => ledger.send(program, { id: ++lastId, plant: PLANT });
  assert.ok(isStored(await create()));

  server.freeze();
  const waiting = Promise.all(Array.from({ length: 200 }, create));
  await eventually(
    (count) => count === 200,
    () => program.metric("plant_store_creates_waiting"),
  );
  await pause(QUEUE_MS_MAX + 200);
  for (let i = 0; i < 20; i++) {
    assert.equal((await create()).error, QUEUE_FULL);
  }
  for (const { error } of await waiting) assert.equal(error, STORE_FAILED);
  // Creates continue to be refused at once.
  for (let i = 0; i < 20; i++) {
    assert.equal((await create()).error, QUEUE_FULL);
  }
  assert.equal(await program.metric("plant_store_creates_waiting"), 0);

  server.thaw();
  await eventually(isStored, create);
  await ledger.settle(program);
  await program.printed(/the store has recovered/);
  await ledger.replay(program);
  assert.equal((await program.stop()).status, 0);
  await server.kill();
  assert.equal(await ledger.assertFile(file), Number(lastId));
});
