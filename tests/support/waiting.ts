/** How tests wait for events. */
import assert from "node:assert/strict";
import {
  setImmediate as turn,
  setTimeout as pause,
} from "node:timers/promises";

// To time the steps of a load; eventually() waits for an event.
export { pause };

/** Time limit of an event, many times what it takes on a busy machine. */
export const WAIT_MS_MAX = 120_000;

/**
 * Waits for an event; throws after {@link WAIT_MS_MAX}.
 * @param describe returns what was expected, and perhaps what happened instead
 */
export async function inTime<T>(
  event: T | Promise<T>,
  describe: () => string,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(
      new Error(`not within ${WAIT_MS_MAX / 1_000} s: ${describe()}`),
    );
  }, WAIT_MS_MAX);
  try {
    return await Promise.race([event, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Repeats an attempt until its result is as expected, by default `true`. Throws
 * after {@link WAIT_MS_MAX}, also if an attempt takes as long.
 */
export async function eventually<T>(
  attempt: () => T | Promise<T>,
  isExpected: (result: T) => boolean = Boolean,
  { everyMs = 50 } = {},
): Promise<T> {
  const untilMs = performance.now() + WAIT_MS_MAX;
  for (;;) {
    const result = await inTime(attempt(), () => `the end of ${attempt}`);
    if (isExpected(result)) return result;
    if (performance.now() > untilMs) {
      const last = JSON.stringify(result);
      assert.fail(
        `not within ${WAIT_MS_MAX / 1_000} s: ${attempt}, last ${last}`,
      );
    }
    await pause(everyMs);
  }
}

/** Waits for all parts, and only then throws the first failure. */
export async function settleAll(
  parts: readonly Promise<unknown>[],
): Promise<void> {
  for (const result of await Promise.allSettled(parts)) {
    if (result.status === "rejected") throw result.reason;
  }
}

/** Calls a function for each item, several at a time. */
export async function inParallel<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
  atATime = 64,
): Promise<void> {
  const iterator = Iterator.from(items);
  await Promise.all(Array.from({ length: atATime }, async () => {
    for (const item of iterator) await work(item);
  }));
}

/**
 * Waits until promises that depend on nothing else have settled, however long their
 * chain is: the next turn of the event loop comes after all of them.
 */
export async function settled(): Promise<void> {
  await turn();
}
