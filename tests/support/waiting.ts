import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { WAIT_MS_MAX } from "./background.ts";
import { type Program, replyStatus } from "./program.ts";

// To time the steps of a load; eventually() waits for an event.
export { pause };

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

/** Repeats something until its result is as expected; throws after minutes. */
export async function eventually<T>(
  isExpected: (reply: T) => boolean,
  attempt: () => T | Promise<T>,
  { everyMs = 50 } = {},
): Promise<T> {
  const untilMs = performance.now() + WAIT_MS_MAX;
  for (;;) {
    const reply = await attempt();
    if (isExpected(reply)) return reply;
    if (performance.now() > untilMs) {
      assert.fail(`not within minutes: ${JSON.stringify(reply)}`);
    }
    await pause(everyMs);
  }
}

/** Waits until GET /readyz has a status. */
export async function untilReady(
  { origin }: Pick<Program, "origin">,
  status = 200,
): Promise<void> {
  const readyz = () => replyStatus(fetch(`${origin}/readyz`));
  await eventually((found) => found === status, readyz);
}
