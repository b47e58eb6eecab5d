import type { Clock } from "../clock.ts";
import { PROBE_MS, PROBES_UNSETTLED_MAX, RECOVERY_MS_MIN } from "../limits.ts";
import type { Store } from "./kv_store.ts";
import { withTimeout } from "./retry.ts";
import { noAnswer, StoreError } from "./store_error.ts";

/** Called when the store has started to fail, or works again. */
export type HealthReport = (error: StoreError | undefined) => void;

/**
 * The health of the store, from the results of commits, checks of its files,
 * and probe writes, which show whether a create would succeed while none
 * arrives. A store recovers with a write that starts {@link RECOVERY_MS_MIN}
 * after the last failure, so one that fails now and then is failing. `/readyz`,
 * the metrics and the log use this one state.
 */
export class StoreHealth {
  readonly #store: Store;
  readonly #report: HealthReport;
  readonly #clock: Clock;
  #error: StoreError | undefined;
  /** When a write last failed. */
  #failedMs = -Infinity;
  /** When the last probe started. */
  #probedMs = -Infinity;
  /** Probe writes that have neither succeeded nor failed. */
  #unsettled = 0;
  /** Resolves when the last probe has a result. */
  #probed: Promise<void> = Promise.resolve();

  constructor(store: Store, report: HealthReport, clock: Clock) {
    this.#store = store;
    this.#report = report;
    this.#clock = clock;
  }

  /** The current error, `undefined` while the store is healthy. Once final, it stays. */
  get error(): StoreError | undefined {
    return this.#error;
  }

  /** Records that a commit has succeeded in so many seconds. */
  committed(seconds: number): void {
    this.#succeeded(this.#clock() - 1000 * seconds);
  }

  /** Records that a commit failed or timed out. The first error counts. */
  failed(error: StoreError): void {
    this.#fail(this.#error ?? error);
  }

  /** Checks the files, and probes a failing store. Call it regularly. */
  check(): void {
    try {
      this.#store.checkFiles();
      if (this.#error !== undefined) this.probe();
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Checks with a probe write whether a create would be stored now. Callers
   * share it: at most one starts per {@link PROBE_MS}, which is also its time
   * limit. While {@link PROBES_UNSETTLED_MAX} of them have no result, no further
   * one starts, and the store counts as failing.
   * @returns the error, or `undefined` if the store is healthy
   */
  async probe(): Promise<StoreError | undefined> {
    const nowMs = this.#clock();
    if (nowMs - this.#probedMs >= PROBE_MS) {
      this.#probedMs = nowMs;
      this.#probed = this.#startProbe();
    }
    await this.#probed;
    return this.#error;
  }

  async #startProbe(): Promise<void> {
    const startMs = this.#clock();
    try {
      await withTimeout(this.#writeProbe(), PROBE_MS);
      this.#succeeded(startMs);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #writeProbe(): Promise<void> {
    if (this.#unsettled === PROBES_UNSETTLED_MAX) throw noAnswer(PROBE_MS);
    this.#unsettled++;
    try {
      await this.#store.probe();
    } finally {
      this.#unsettled--;
    }
  }

  #succeeded(startMs: number): void {
    if (this.#failedMs <= startMs - RECOVERY_MS_MIN) this.#set(undefined);
  }

  #fail(error: unknown): void {
    if (!(error instanceof StoreError)) throw error;
    this.#failedMs = this.#clock();
    this.#set(error);
  }

  #set(error: StoreError | undefined): void {
    if (this.#error?.isFinal || isSame(error, this.#error)) return;
    this.#error = error;
    this.#report(error);
  }
}

/** Returns whether a report of both would say the same. */
function isSame(one: StoreError | undefined, other: StoreError | undefined) {
  // "other" has several causes, such as a failing disk, which is then full.
  return one?.kind === other?.kind &&
    (one?.kind !== "other" || one.message === other?.message);
}
