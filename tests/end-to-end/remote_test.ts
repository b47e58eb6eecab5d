/** A KV Connect server that hangs. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import { eventually, isStored, PLANT } from "../support/load.ts";
import { Program, statusOf } from "../support/program.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;

withServer.test("a KV Connect server that hangs causes 503 for creates and for /readyz, and creates succeed when it continues", async ({ directory, ledger }) => {
  const file = directory.file("kv.db");
  await using server = await KvServer.start(file);
  await using program = await Program.start(["--kv", server.url], {
    env: KV_ENV,
  });
  let lastId = 0n;
  const create = () => ledger.send(program, { id: ++lastId, plant: PLANT });
  assert.ok(isStored(await create()));

  server.freeze();
  // The first creates take all commits that may be in flight.
  for (let i = 0; i < 2; i++) {
    const waiting = Promise.all(Array.from({ length: 200 }, create));
    for (const { error } of await waiting) assert.equal(error, STORE_FAILED);
    assert.equal(await statusOf(program.get("/readyz")), 503);
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
