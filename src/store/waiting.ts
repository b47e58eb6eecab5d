import { setTimeout as sleep } from "node:timers/promises";
import { LOCK_RETRY_MS_MAX } from "../limits.ts";

/** Rejects if the work takes too long; the work itself may continue. */
export async function withTimeout<T>(
  work: Promise<T>,
  timeoutMs: number,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timedOut = new Promise<never>((_, reject) => {
    const error = new Error(`no answer within ${timeoutMs / 1000} s`);
    timer = setTimeout(() => reject(error), timeoutMs);
  });
  try {
    return await Promise.race([work, timedOut]);
  } finally {
    clearTimeout(timer);
  }
}

/** Repeats an operation for a time while its error may be a passing one. */
export async function retryWhile<T>(
  isPassing: (error: unknown) => boolean,
  timeoutMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  const untilMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await operation();
    } catch (error) {
      if (!isPassing(error) || performance.now() > untilMs) throw error;
    }
    await sleep(LOCK_RETRY_MS_MAX);
  }
}
