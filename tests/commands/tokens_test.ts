import assert from "node:assert/strict";
import { generateToken, oneAtATime } from "../../src/commands/tokens.ts";
import { settled } from "../support/held_store.ts";

/** A task whose runs end when the test says so. */
function heldTask() {
  const runs: PromiseWithResolvers<void>[] = [];
  const run = oneAtATime(() => {
    const held = Promise.withResolvers<void>();
    runs.push(held);
    return held.promise;
  });
  return { runs, run };
}

Deno.test("oneAtATime() runs a task once more, after the current run, however often it is called meanwhile", async () => {
  const { runs, run } = heldTask();
  run();
  assert.equal(runs.length, 1);
  run();
  run();
  await settled();
  assert.equal(runs.length, 1);
  runs[0]?.resolve();
  await settled();
  assert.equal(runs.length, 2);
  runs[1]?.resolve();
  await settled();
  assert.equal(runs.length, 2);
});

Deno.test("oneAtATime() runs a task again after a run has ended or failed", async () => {
  const { runs, run } = heldTask();
  const first = run();
  runs[0]?.resolve();
  await first;
  const failing = run();
  runs[1]?.reject(new Error("a bug of this test"));
  await assert.rejects(failing, /a bug of this test/);
  run();
  assert.equal(runs.length, 3);
});

Deno.test("generateToken() returns 128 random bits as hexadecimal digits", () => {
  const tokens = Array.from({ length: 10 }, generateToken);
  for (const token of tokens) assert.match(token, /^[\da-f]{32}$/);
  assert.equal(new Set(tokens).size, tokens.length);
});
