/** Time limits and retries. Both use real timers. */
import { setTimeout as sleep } from "node:timers/promises";
import { isOfKind, noAnswer } from "./store_error.ts";

/** Maximum pause before a retry: about one commit of the process with the lock. */
const LOCK_RETRY_MS_MAX = 20;

/** A try that fails within this time before the limit is the last one. */
const LAST_TRY_MS = 200;

/**
 * Rejects if the work takes too long; the work itself may continue.
 * @throws {StoreError} of the kind "no answer" then
 */
export async function withTimeout<T>(
  timeoutMs: number,
  work: Promise<T>,
): Promise<T> {
  const { promise: deadline, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(noAnswer(timeoutMs)), timeoutMs);
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits before a retry. The time is random, so two processes do not stay in step. */
export async function pauseForLock(): Promise<void> {
  await sleep(Math.random() * LOCK_RETRY_MS_MAX);
}

/**
 * Runs an operation with a time limit. Repeats the operation while another process has
 * the lock.
 * @param timeoutMs more than {@link LAST_TRY_MS}
 * @throws {StoreError} the error of the last try, or "no answer" if it hangs
 */
export async function retryWhileLocked<T>(
  timeoutMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  // The last try ends before the limit, so that its error is the lock, which tells
  // more than "no answer" does.
  const lastTryMs = performance.now() + timeoutMs - LAST_TRY_MS;
  async function untilUnlocked(): Promise<T> {
    for (;;) {
      try {
        return await operation();
      } catch (error) {
        const isLastTry = performance.now() >= lastTryMs;
        if (isLastTry || !isOfKind(error, "locked")) throw error;
        await pauseForLock();
      }
    }
  }
  return await withTimeout(timeoutMs, untilUnlocked());
}
