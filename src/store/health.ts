import { PROBE_MS, RECOVERY_MS_MIN } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import { withTimeout } from "./waiting.ts";

/** The part of the store that the health checks use. */
export interface ObservedStore {
  /** Returns the problem of the files, if any; it lasts until a restart. */
  fileProblem(): string | undefined;
  /** Performs a no-op write; rejects on failure. May never settle. */
  probe(): Promise<void>;
}

/**
 * The health of the store. It fails with a commit, a check of its files or a
 * probe write, and recovers only with a probe write some time after the last
 * failure: a store on which some commits fail and others succeed is failing.
 * `/readyz`, the metrics and the log use this one state.
 */
export class StoreHealth {
  readonly #store: ObservedStore;
  readonly #report: (problem: string | undefined) => void;
  readonly #nowMs: () => number;
  #problem: string | undefined;
  /** When a create last failed. */
  #failedMs = -Infinity;
  /** When the last probe started, and whether its write may still settle. */
  #probedMs = -Infinity;
  #isProbing = false;
  /** Resolves when the last probe has a result. */
  #probed: Promise<void> = Promise.resolve();

  /**
   * @param report called with the problem when the store starts to fail, and
   * with `undefined` when it has recovered
   */
  constructor(
    store: ObservedStore,
    report: (problem: string | undefined) => void,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#store = store;
    this.#report = report;
    this.#nowMs = nowMs;
  }

  /** The current problem, `undefined` while the store is healthy. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Records that a commit failed or timed out. The first problem counts. */
  failed(problem: string): void {
    this.#failedMs = this.#nowMs();
    this.#set(this.#problem ?? problem);
  }

  /** Checks the files, and probes a failing store. Call it regularly. */
  check(): void {
    const problem = this.#store.fileProblem();
    if (problem !== undefined) this.#set(problem);
    else if (this.#problem !== undefined) this.probe();
  }

  /**
   * Checks with a probe write whether a create would be stored now. Callers
   * share it: one runs at a time, and at most one starts per {@link PROBE_MS}.
   * @returns the problem, or `undefined` if the store is healthy
   */
  async probe(): Promise<string | undefined> {
    const nowMs = this.#nowMs();
    if (!this.#isProbing && nowMs - this.#probedMs >= PROBE_MS) {
      this.#probedMs = nowMs;
      this.#probed = this.#startProbe();
    }
    await this.#probed;
    return this.#problem;
  }

  async #startProbe(): Promise<void> {
    const startMs = this.#nowMs();
    this.#isProbing = true;
    const written = this.#store.probe().finally(() => this.#isProbing = false);
    try {
      await withTimeout(written, PROBE_MS);
      if (this.#failedMs <= startMs - RECOVERY_MS_MIN) this.#set(undefined);
    } catch (error) {
      this.#set(this.#problem ?? errorMessage(error));
    }
  }

  #set(problem: string | undefined): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#report(problem);
  }
}
