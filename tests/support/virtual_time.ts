/** More turns of the microtask queue than a step of the committer takes. */
const TURNS = 24;

/** Time that passes from event to event, so that hours take milliseconds. */
export class VirtualTime {
  #nowMs = 0;
  #steps = 0;
  /** In order, the next one last. */
  readonly #events: { readonly atMs: number; readonly run: () => void }[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** The number of the current event: two events can have one time. */
  get step(): number {
    return this.#steps;
  }

  /** Schedules an event, after those of the same time. */
  at(atMs: number, run: () => void): void {
    const events = this.#events;
    let from = 0;
    let to = events.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((events[middle]?.atMs ?? 0) > atMs) from = middle + 1;
      else to = middle;
    }
    events.splice(from, 0, { atMs, run });
  }

  /** Schedules an event a time from now. */
  after(ms: number, run: () => void): void {
    this.at(this.#nowMs + ms, run);
  }

  /**
   * Runs the next event, and everything that promises do because of it.
   * @returns whether there was an event until then
   */
  async advance(untilMs: number): Promise<boolean> {
    const event = this.#events.pop();
    if (event === undefined || event.atMs > untilMs) return false;
    this.#nowMs = event.atMs;
    this.#steps++;
    event.run();
    for (let turn = 0; turn < TURNS; turn++) await undefined;
    return true;
  }
}
