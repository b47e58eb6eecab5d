import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import type { Store } from "./kv_store.ts";
import { retryWhileLocked } from "./retry.ts";
import { noAnswer, StoreError } from "./store_error.ts";

/**
 * Minimum time from the last failed write to one that counts as a recovery: some
 * writes may fail while others succeed, as on a disk that is nearly full.
 */
export const RECOVERY_MS_MIN = 2_000;

/** Time for a probe write, and the minimum interval between two of them. */
export const PROBE_MS = 1_000;

/** Called when the store starts to fail, fails in another way, or has recovered. */
export type HealthListener = (error: StoreError | undefined) => void;

/** What the health of a store needs. */
interface HealthOptions {
  readonly store: Store;
  readonly onChange: HealthListener;
  readonly clock?: Clock;
}

/**
 * The health of the store: what its commits, its files and its probes have shown.
 * A probe is a write that shows whether a create would succeed now, also if none
 * arrives. `/readyz`, the metrics and the log use this one state.
 *
 * A failing store recovers with a write that starts {@link RECOVERY_MS_MIN} after
 * the last failure. So a store that fails now and then does not recover in between.
 */
export class StoreHealth {
  readonly #store: Store;
  readonly #onChange: HealthListener;
  readonly #clock: Clock;
  #error: StoreError | undefined;
  #failedMs = -Infinity;
  /** When the last probe started. It has a result at most {@link PROBE_MS} later. */
  #probeMs = -Infinity;
  /** Resolves when the last probe has its result. */
  #probed: Promise<void> | undefined;
  /** Whether the write of the last probe has no answer yet. */
  #isUnanswered = false;

  constructor({ store, onChange, clock = SYSTEM_CLOCK }: HealthOptions) {
    this.#store = store;
    this.#onChange = onChange;
    this.#clock = clock;
  }

  /**
   * The current error, `undefined` while the store is healthy. It stays once the
   * store is lost. Once the store is corrupt, only a loss replaces it.
   */
  get error(): StoreError | undefined {
    return this.#error;
  }

  /** Records that a commit, or a probe, that started at this time has succeeded. */
  committed(startMs: number): void {
    if (startMs >= this.#failedMs + RECOVERY_MS_MIN) this.#become(undefined);
  }

  /**
   * Records that a commit failed or timed out. The error of a store that is failing
   * already does not change: a probe or the files may have given a more exact one.
   */
  commitFailed(error: StoreError): void {
    this.#failed(this.#error ?? error);
  }

  /** Verifies the files, and probes a failing store. Call it regularly. */
  refresh(): void {
    try {
      this.#store.verifyFiles();
      if (this.#error !== undefined) this.probe();
    } catch (error) {
      this.#failed(error);
    }
  }

  /**
   * Probes whether a create would be stored now. Callers share a probe for
   * {@link PROBE_MS}, which is also its time limit. If its write has no answer by then,
   * the store is failing, and there is no further probe before the answer.
   * @returns the error, or `undefined` if the store is healthy
   */
  async probe(): Promise<StoreError | undefined> {
    const nowMs = this.#clock();
    if (nowMs - this.#probeMs >= PROBE_MS) {
      if (this.#isUnanswered) this.#failed(noAnswer(PROBE_MS));
      else {
        this.#probeMs = nowMs;
        this.#probed = this.#probeFrom(nowMs);
      }
    }
    await this.#probed;
    return this.#error;
  }

  /** Probes the store, and records the result. */
  async #probeFrom(startMs: number): Promise<void> {
    try {
      await retryWhileLocked(PROBE_MS, async () => {
        this.#isUnanswered = true;
        await this.#store.probe().finally(() => this.#isUnanswered = false);
      });
      this.committed(startMs);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Records a failure. @throws anything else: a programmer error */
  #failed(error: unknown): void {
    if (!(error instanceof StoreError)) throw error;
    this.#failedMs = this.#clock();
    this.#become(error);
  }

  /**
   * Changes the state, and reports a change of kind. A store that has ended can only be
   * lost after that: then its plants must be saved, also if it was found corrupt.
   */
  #become(error: StoreError | undefined): void {
    if (this.#error?.endsStore && error?.kind !== "lost") return;
    if (error?.kind === this.#error?.kind) return;
    this.#error = error;
    this.#onChange(error);
  }
}
