import assert from "node:assert/strict";
import { retryWhileLocked, withTimeout } from "../../src/store/retry.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { isStoreError, LOCKED } from "../support/stores.ts";

/** More than the tests take. */
const LONG_MS = 60_000;

/** Work that never ends. */
function silence(): Promise<never> {
  return new Promise(() => {});
}

Deno.test("withTimeout() returns the result of work, or rejects after a time", async () => {
  assert.equal(await withTimeout(LONG_MS, Promise.resolve(7)), 7);
  const expected = isStoreError("no answer", "no answer within 0.01 s");
  await assert.rejects(withTimeout(10, silence()), expected);
});

Deno.test("retryWhileLocked() repeats an operation that meets a lock, and no other", async () => {
  const errors: StoreError[] = [LOCKED, LOCKED];
  const operation = () => {
    const error = errors.shift();
    return error === undefined ? Promise.resolve(7) : Promise.reject(error);
  };
  assert.equal(await retryWhileLocked(LONG_MS, operation), 7);
  errors.push(LOCKED, new StoreError("disk", "disk I/O error"), LOCKED);
  await assert.rejects(
    retryWhileLocked(LONG_MS, operation),
    isStoreError("disk"),
  );
  assert.deepEqual(errors, [LOCKED]);
});

Deno.test("retryWhileLocked() repeats an operation until its time is over, and fails with the lock", async () => {
  let tries = 0;
  const retrying = retryWhileLocked(500, () => {
    tries++;
    return Promise.reject(LOCKED);
  });
  await assert.rejects(retrying, isStoreError("locked"));
  assert.ok(tries > 1, `${tries} tries`);
});

Deno.test("retryWhileLocked() fails without an answer if an operation hangs", async () => {
  const hanging = retryWhileLocked(300, silence);
  await assert.rejects(hanging, isStoreError("no answer"));
});
