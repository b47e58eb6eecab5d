/** Deadlines with real timers, since a `Clock` has none that can be cleared. */
import { setTimeout as sleep } from "node:timers/promises";
import { LOCK_RETRY_MS_MAX } from "../limits.ts";
import { StoreError, toStoreError } from "../store_error.ts";

/**
 * Rejects if the work takes too long; the work itself may continue.
 * @throws {StoreError} of the kind "no answer" then
 */
export async function withTimeout<T>(
  work: Promise<T>,
  timeoutMs: number,
): Promise<T> {
  const { promise: deadline, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(noAnswer(timeoutMs)), timeoutMs);
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Repeats an operation for a time while another process has the lock. Rejects in
 * time, even if the operation does not settle, which may then continue.
 * @throws {StoreError} "no answer" if the last try does not settle in time
 * @throws the error of the last try
 */
export async function retryWhileLocked<T>(
  timeoutMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await withTimeout(operation(), endMs - performance.now());
    } catch (error) {
      const { kind } = toStoreError(error);
      if (kind === "no answer") throw noAnswer(timeoutMs);
      if (kind !== "locked") throw error;
      await sleep(LOCK_RETRY_MS_MAX);
      // A sleep may take longer than asked for, and a try needs time for its answer.
      if (performance.now() + LOCK_RETRY_MS_MAX >= endMs) throw error;
    }
  }
}

/** Returns the error of an operation that took too long. */
export function noAnswer(timeoutMs: number): StoreError {
  const message = `no answer within ${timeoutMs / 1000} s`;
  return new StoreError("no answer", message);
}
