/** Time limits and retries; a `Clock` has no timers, so these use real ones. */
import { setTimeout as sleep } from "node:timers/promises";
import { LOCK_RETRY_MS_MAX } from "../limits.ts";
import { noAnswer, StoreError } from "./store_error.ts";

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
 * Repeats an operation for a time while another process has the lock. It waits
 * for a try that hangs: combine it with {@link withTimeout}.
 * @throws {StoreError} the error of the last try
 */
export async function retryWhileLocked<T>(
  timeoutMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await operation();
    } catch (error) {
      const isLocked = error instanceof StoreError && error.kind === "locked";
      // A sleep may take longer than asked for, and a try needs time, too.
      const isLast = performance.now() + 2 * LOCK_RETRY_MS_MAX >= endMs;
      if (!isLocked || isLast) throw error;
      await sleep(Math.random() * LOCK_RETRY_MS_MAX);
    }
  }
}
