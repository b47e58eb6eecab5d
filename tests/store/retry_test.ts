import assert from "node:assert/strict";
import { LOCK_RETRY_MS_MAX } from "../../src/limits.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import { storeError } from "../support/stores.ts";
import { retryWhileLocked, withTimeout } from "../../src/store/retry.ts";

const LOCKED = new DatabaseError("locked");

Deno.test("retryWhileLocked() repeats an operation while another process has the lock", async () => {
  let tries = 0;
  const result = await retryWhileLocked(60_000, () => {
    tries++;
    return tries < 3 ? Promise.reject(LOCKED) : Promise.resolve("done");
  });
  assert.deepEqual([result, tries], ["done", 3]);
});

Deno.test("retryWhileLocked() fails at once with another error", async () => {
  const error = new Error("corrupt");
  const work = retryWhileLocked(60_000, () => Promise.reject(error));
  await assert.rejects(work, error);
});

Deno.test("retryWhileLocked() starts no operation after its time", async () => {
  let tries = 0;
  const work = retryWhileLocked(LOCK_RETRY_MS_MAX / 2, () => {
    tries++;
    return Promise.reject(LOCKED);
  });
  await assert.rejects(work, LOCKED);
  assert.equal(tries, 1);
});

Deno.test("retryWhileLocked() fails in time with the last error of an operation whose next try does not end", async () => {
  let tries = 0;
  const work = retryWhileLocked(100, () => {
    tries++;
    return tries === 1 ? Promise.reject(LOCKED) : new Promise(() => {});
  });
  await assert.rejects(work, LOCKED);
});

Deno.test("withTimeout() rejects if the work does not end in time", async () => {
  await assert.rejects(
    withTimeout(new Promise(() => {}), 10),
    storeError("no answer", "no answer within 0.01 s"),
  );
});

Deno.test({
  name: "withTimeout() leaves no timer that would keep the program running",
  sanitizeOps: true,
  fn: async () => {
    assert.equal(await withTimeout(Promise.resolve(1), 60_000), 1);
    const failed = withTimeout(Promise.reject(LOCKED), 60_000);
    await assert.rejects(failed, LOCKED);
  },
});
