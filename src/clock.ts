import { setTimeout as sleep } from "node:timers/promises";

/** The time; tests provide their own. */
export interface Clock {
  /** Returns the time in milliseconds since any moment; never decreases. */
  nowMs(): number;
  sleep(ms: number): Promise<void>;
}

/** The real time. */
export const SYSTEM_CLOCK: Clock = {
  nowMs: () => performance.now(),
  sleep: (ms) => sleep(ms),
};
