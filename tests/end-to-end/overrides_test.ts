/** Deno's own variables that would move the store or the service. */
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

for (
  const [variable, value] of [
    ["DENO_KV_DB_MODE", "memory"],
    ["DENO_KV_PATH_PREFIX", "/none/"],
    ["DENO_SERVE_ADDRESS", "tcp:127.0.0.2:0"],
  ] as const
) {
  test(`${variable}=${value} affects no command`, async ({ directory, store, start }) => {
    const options = { env: { [variable]: value } };
    const lines = [toLine(1n, "imported")];
    const file = writeLines(directory.file("in"), lines);
    assertSucceeded(await importFile(store, file, options));
    assertSameLines(await exportLines(store), lines);
    {
      await using program = await start([], options);
      assert.match(program.origin, /^http:\/\/127\.0\.0\.1:/);
      const create = program.create({ id: 2, name: "created" });
      assert.equal(await statusOf(create), 200);
      const port = `${program.port}`;
      const health = ["healthcheck", "--port", port];
      assertSucceeded(await runProgram(health, options));
      await program.stop();
    }
    lines.push(toLine(2n, "created"));
    assertSameLines(await exportLines(store, options), lines);
    const backup = directory.file("backup.db");
    assertSucceeded(await backUp(store, backup, options));
    const restored = directory.file("restored.db");
    assertSucceeded(await restore(restored, backup, options));
    assertSameLines(await exportLines(restored), lines);
  });
}
