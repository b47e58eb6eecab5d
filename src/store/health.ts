import type { Clock } from "../clock.ts";
import { PROBE_MS, RECOVERY_MS_MIN } from "../limits.ts";
import type { Store } from "./kv_store.ts";
import { withTimeout } from "./retry.ts";
import { StoreError } from "./store_error.ts";

/** Called when the store starts to fail, fails in another way, or has recovered. */
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
  /** When a write or a check of the files last failed. */
  #failedMs = -Infinity;
  /** When the last probe started. */
  #probedMs = -Infinity;
  /** The probe write that has neither succeeded nor failed. */
  #writing: Promise<void> | undefined;
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

  /**
   * Records that a commit failed or timed out. If the store is failing already, its
   * error stays: that of a probe or of the files is more exact.
   */
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
   * limit. While a write has no result, no further one starts, and the store
   * counts as failing.
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
      this.#writing ??= this.#store.probe()
        .finally(() => this.#writing = undefined);
      await withTimeout(this.#writing, PROBE_MS);
      this.#succeeded(startMs);
    } catch (error) {
      this.#fail(error);
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
    if (this.#error?.isFinal || error?.kind === this.#error?.kind) return;
    this.#error = error;
    this.#report(error);
  }
}
