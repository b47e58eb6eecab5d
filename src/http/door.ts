import type { Clock } from "../clock.ts";
import { CREATES_RUNNING_MAX, QUIET_MS } from "../limits.ts";
import type { Log } from "../telemetry/log.ts";
import { countOf } from "../text.ts";

/**
 * The door of the service, the one place that bounds load: it admits a create or
 * refuses it, counts the creates until they leave, and drains when the service stops.
 * Every POST request counts as a create, because its checks come later.
 */
export class Door {
  #creates = 0;
  /** Set when the service stops; resolves when no create is inside. */
  #drained: PromiseWithResolvers<void> | undefined;
  /** Creates that were refused since the log says that the service is busy. */
  #refused = 0;
  #refusedMs = -Infinity;
  readonly #log: Log;
  readonly #clock: Clock;

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** The creates that are running, from their headers to their replies. */
  get creates(): number {
    return this.#creates;
  }

  /** Whether the service stops, so that no create may reach the store. */
  get isDraining(): boolean {
    return this.#drained !== undefined;
  }

  /**
   * Admits a create, which must {@link leave}. A draining service admits it, too:
   * the handler refuses it after the checks that come first, such as the token.
   * @returns false if the service is busy
   */
  enter(): boolean {
    if (this.#creates === CREATES_RUNNING_MAX) {
      this.#refuse();
      return false;
    }
    this.#creates++;
    return true;
  }

  /** Counts a refusal, and logs the first one. */
  #refuse(): void {
    if (this.#refused === 0) {
      const running = `${this.#creates} creates are running`;
      this.#log.warn("busy", `busy: ${running}, further ones are refused`);
    }
    this.#refused++;
    this.#refusedMs = this.#clock();
  }

  /** Logs that the service is no longer busy. Call it regularly. */
  sweep(): void {
    const isOver = this.#clock() - this.#refusedMs >= QUIET_MS;
    if (this.#refused === 0 || !isOver) return;
    const refused = countOf(this.#refused, "create was", "creates were");
    this.#log.info("busy over", `no longer busy: ${refused} refused`);
    this.#refused = 0;
  }

  /** A create has its reply, and leaves. */
  leave(): void {
    this.#creates--;
    if (this.#creates === 0) this.#drained?.resolve();
  }

  /** Resolves when every running create has left. */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    if (this.#creates > 0) await this.#drained.promise;
  }
}
