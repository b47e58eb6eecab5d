import { setTimeout as sleep } from "node:timers/promises";
import { LOCK_RETRY_MS_MAX } from "../limits.ts";

/** Rejects if the work takes too long; the work itself may continue. */
export function withTimeout<T>(
  work: Promise<T>,
  timeoutMs: number,
): Promise<T> {
  return retryWhile(() => false, timeoutMs, () => work);
}

/**
 * Repeats an operation for a time while its error may be a passing one. Rejects
 * in time, even if the operation does not settle, which may then continue.
 * @throws the last error of the operation, or `Deno.errors.TimedOut` if it has
 * had none
 */
export async function retryWhile<T>(
  isPassing: (error: unknown) => boolean,
  timeoutMs: number,
  operation: () => Promise<T>,
): Promise<T> {
  let problem: unknown = new Deno.errors.TimedOut(
    `no answer within ${timeoutMs / 1000} s`,
  );
  let isOver = false;
  const { promise: timedOut, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    isOver = true;
    reject(problem);
  }, timeoutMs);
  try {
    while (!isOver) {
      try {
        return await Promise.race([operation(), timedOut]);
      } catch (error) {
        if (isOver || !isPassing(error)) throw error;
        problem = error;
      }
      await sleep(LOCK_RETRY_MS_MAX);
    }
    throw problem;
  } finally {
    clearTimeout(timer);
  }
}
