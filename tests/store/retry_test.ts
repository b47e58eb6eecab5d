import assert from "node:assert/strict";
import { retryWhileLocked } from "../../src/store/retry.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { storeError } from "../support/stores.ts";

const LOCKED = new StoreError("locked");

Deno.test("retryWhileLocked() repeats an operation while another process has the lock, and fails at once with another error", async () => {
  const results = [LOCKED, LOCKED, new Error("corrupt"), LOCKED];
  const work = retryWhileLocked(60_000, () => Promise.reject(results.shift()));
  await assert.rejects(work, new Error("corrupt"));
  assert.equal(results.length, 1);
});

Deno.test("retryWhileLocked() fails in time: as locked, or without an answer if its last try does not end", async () => {
  const locked = retryWhileLocked(100, () => Promise.reject(LOCKED));
  await assert.rejects(locked, LOCKED);
  const results = [Promise.reject(LOCKED), new Promise(() => {})];
  const silent = retryWhileLocked(100, async () => await results.shift());
  const message = "no answer within 0.1 s";
  await assert.rejects(silent, storeError("no answer", message));
});
