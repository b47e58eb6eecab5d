import assert from "node:assert/strict";
import { statusOf } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { exportLines } from "../support/transfer.ts";

/** Deno's own variables that would move the store or the service. */
const OVERRIDES = {
  DENO_KV_DB_MODE: "memory",
  DENO_KV_PATH_PREFIX: "/none/",
  DENO_SERVE_ADDRESS: "tcp:127.0.0.2:0",
};

test("the variables of Deno that would move the store or the service have no effect", async ({ store, start }) => {
  const options = { env: OVERRIDES };
  {
    await using program = await start([], options);
    assert.match(program.origin, /^http:\/\/127\.0\.0\.1:/);
    const create = program.create({ id: 1, name: "created" });
    assert.equal(await statusOf(create), 200);
  }
  const lines = ['{"id":1,"name":"created"}'];
  assert.deepEqual(await exportLines(store), lines);
  assert.deepEqual(await exportLines(store, options), lines);
});
