/** Time in tests of one process. */
import type { Clock } from "../../src/clock.ts";

/** A clock that the test advances. */
export class FakeClock {
  now = 0;
  readonly read: Clock = () => this.now;
}

/** Waits until promises that depend on nothing else have settled. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await undefined;
}
