import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { CREATES_RUNNING_MAX, QUIET_MS } from "../limits.ts";
import type { Log } from "../telemetry/log.ts";
import { countOf } from "../text.ts";

/**
 * The door of the service, the one place that bounds load: it admits a POST request or
 * refuses it, counts those inside until they leave, and drains when the service stops.
 * Whether a POST request is a create is checked behind the door.
 */
export class Door {
  #posts = 0;
  /** Set when the service stops; resolves when no request is inside. */
  #drained: PromiseWithResolvers<void> | undefined;
  /** Requests that were refused since the log says that the service is busy. */
  #refused = 0;
  #refusedMs = -Infinity;
  readonly #log: Log;
  readonly #clock: Clock;

  constructor(
    { log, clock = SYSTEM_CLOCK }: {
      readonly log: Log;
      readonly clock?: Clock;
    },
  ) {
    this.#log = log;
    this.#clock = clock;
  }

  /** The POST requests that are running, from their headers to their replies. */
  get posts(): number {
    return this.#posts;
  }

  /** Whether the service is busy, so that it refuses the next POST request. */
  get isFull(): boolean {
    return this.#posts === CREATES_RUNNING_MAX;
  }

  /** Whether the service stops, so that no create may reach the store. */
  get isDraining(): boolean {
    return this.#drained !== undefined;
  }

  /**
   * Admits a POST request, which must {@link leave}. A draining service admits it,
   * too: the handler refuses it after the checks that come first, such as the token.
   * @returns false if the service is busy
   */
  enter(): boolean {
    if (!this.isFull) {
      this.#posts++;
      return true;
    }
    if (this.#refused === 0) {
      const running = `${this.#posts} creates are running`;
      this.#log.warn("busy", `busy: ${running}, further ones are refused`);
    }
    this.#refused++;
    this.#refusedMs = this.#clock();
    return false;
  }

  /** Logs that the service is no longer busy. Call it regularly. */
  sweep(): void {
    const isOver = this.#clock() - this.#refusedMs >= QUIET_MS;
    if (this.#refused === 0 || !isOver) return;
    const refused = countOf(this.#refused, "create was", "creates were");
    this.#log.info("busy over", `no longer busy: ${refused} refused`);
    this.#refused = 0;
  }

  /** Lets a request out that has its reply. */
  leave(): void {
    this.#posts--;
    if (this.#posts === 0) this.#drained?.resolve();
  }

  /** Resolves when every running request has left. */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    if (this.#posts > 0) await this.#drained.promise;
  }
}
