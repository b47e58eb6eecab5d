import assert from "node:assert/strict";
import { assertOneLine, runProgram } from "../support/program.ts";
import { test } from "../support/tests.ts";

test("healthcheck succeeds without output if the service is ready, and fails with one line if nothing listens", async ({ start }) => {
  await using program = await start();
  const env = { PORT: String(program.port) };
  assert.deepEqual(
    await runProgram(["healthcheck"], { env }),
    { status: 0, signal: null, stdout: "", stderr: "" },
  );
  await program.stop();
  assertOneLine(
    await runProgram(["healthcheck"], { env }),
    1,
    new RegExp(`no answer from 127\\.0\\.0\\.1 port ${program.port}: `),
  );
});
