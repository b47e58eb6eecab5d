import { settled } from "../../support/waiting.ts";

/** Time that passes from event to event, so that hours take milliseconds. */
export class VirtualTime {
  nowMs = 0;
  /** The number of the current event: two events can have one time. */
  step = 0;
  /** In order, the next one first. */
  readonly #events: { readonly atMs: number; readonly run: () => void }[] = [];

  /** Schedules an event, after those of the same time. */
  at(atMs: number, run: () => void): void {
    const before = this.#events.findLastIndex((event) => event.atMs <= atMs);
    this.#events.splice(before + 1, 0, { atMs, run });
  }

  /** Schedules an event a time from now. */
  after(ms: number, run: () => void): void {
    this.at(this.nowMs + ms, run);
  }

  /**
   * Runs the next event, and everything that promises do because of it.
   * @returns whether there was an event until then
   */
  async advance(untilMs: number): Promise<boolean> {
    const event = this.#events.shift();
    if (event === undefined || event.atMs > untilMs) return false;
    this.nowMs = event.atMs;
    this.step++;
    event.run();
    await settled();
    return true;
  }
}
