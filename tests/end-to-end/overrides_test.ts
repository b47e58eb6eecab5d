import assert from "node:assert/strict";
import { assertSucceeded, runProgram, statusOf } from "../support/program.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  exportLines,
  importFile,
  restore,
  toLine,
  writeLines,
} from "../support/transfer.ts";

/** Deno's own variables that would move the store or the service. */
const OVERRIDES = {
  DENO_KV_DB_MODE: "memory",
  DENO_KV_PATH_PREFIX: "/none/",
  DENO_SERVE_ADDRESS: "tcp:127.0.0.2:0",
};

test("the variables of Deno that would move the store or the service affect no command", async ({ directory, store, start }) => {
  const options = { env: OVERRIDES };
  const lines = [toLine(1n, "imported"), toLine(2n, "created")];
  const file = writeLines(directory.file("in"), lines.slice(0, 1));
  assertSucceeded(await importFile(store, file, options));
  {
    await using program = await start([], options);
    assert.match(program.origin, /^http:\/\/127\.0\.0\.1:/);
    const create = program.create({ id: 2, name: "created" });
    assert.equal(await statusOf(create), 200);
    const health = ["healthcheck", "--port", `${program.port}`];
    assertSucceeded(await runProgram(health, options));
  }
  assertSameLines(await exportLines(store), lines);
  assertSameLines(await exportLines(store, options), lines);
  const backup = directory.file("backup.db");
  assertSucceeded(await backUp(store, backup, options));
  const restored = directory.file("restored.db");
  assertSucceeded(await restore(restored, backup, options));
  assertSameLines(await exportLines(restored), lines);
});
