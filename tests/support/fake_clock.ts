/** Time in tests of one process. */
import type { Clock } from "../../src/clock.ts";

/** A clock that the test advances. */
export class FakeClock {
  now = 0;
  readonly read: Clock = () => this.now;
}
