import { FILE_CHECK_MS_MAX, PROBE_MS, RECOVERY_MS_MIN } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import type { CommitHealth } from "./committer.ts";

/** The part of the store that the health checks use. */
export interface ObservedStore {
  /** Returns the problem of the database file, if any; cheap. */
  fileProblem(): string | undefined;
  /** Checks the files beside the database, for {@link fileProblem}. */
  checkCompanions(): void;
  /** Performs a no-op write; rejects on failure. May never settle. */
  probe(): Promise<void>;
}

/** One probe write, shared by all callers while it is current. */
interface Probe {
  readonly startMs: number;
  /** Whether the write has not settled; it may never settle. */
  isPending: boolean;
  /** Resolves when the write settles, or after {@link PROBE_MS}. */
  readonly finished: Promise<void>;
}

/**
 * The health of the store, from the results of commits, checks of its files,
 * and probe writes, which show whether a create would succeed while none
 * arrives. `/readyz`, the metrics, the log and the committer use this one state.
 */
export class StoreHealth implements CommitHealth {
  readonly #store: ObservedStore;
  readonly #report: (problem: string | undefined) => void;
  readonly #nowMs: () => number;
  /** The problem last reported, `undefined` while the store is healthy. */
  #problem: string | undefined;
  #fileProblem: string | undefined;
  /** The first problem of a write since the last one that succeeded. */
  #writeProblem: string | undefined;
  #fileCheckedMs = -Infinity;
  #failedMs = -Infinity;
  #probe: Probe | undefined;

  /**
   * @param report called with the problem when the store starts to fail or a
   * file check finds a new one, and with `undefined` when it has recovered
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

  /** See {@link CommitHealth}. Checks the file if the last check is too old. */
  isHealthy(): boolean {
    if (this.#nowMs() - this.#fileCheckedMs > FILE_CHECK_MS_MAX) {
      this.#checkFile();
    }
    return this.#problem === undefined;
  }

  /** See {@link CommitHealth}. */
  failed(problem: string): void {
    this.#failedMs = this.#nowMs();
    this.#writeFailed(problem);
  }

  /** See {@link CommitHealth}. A commit succeeds only if the file is in place. */
  succeeded(): void {
    this.#fileProblem = undefined;
    this.#writeProblem = undefined;
    this.#update();
  }

  /** Checks the files, and probes a failing store. Call it regularly. */
  check(): void {
    this.#store.checkCompanions();
    this.#checkFile();
    if (this.#problem !== undefined) this.probe();
  }

  /**
   * Checks with a probe write whether a create would be stored now. Callers
   * share it: one runs at a time, and at most one starts per {@link PROBE_MS}.
   * @returns the problem, or `undefined` if the store is healthy
   */
  async probe(): Promise<string | undefined> {
    const last = this.#probe;
    const isCurrent = last !== undefined &&
      (last.isPending || this.#nowMs() - last.startMs < PROBE_MS);
    const probe = isCurrent ? last : this.#startProbe();
    this.#probe = probe;
    await probe.finished;
    this.#store.checkCompanions();
    this.#checkFile();
    return this.#problem;
  }

  #startProbe(): Probe {
    const startMs = this.#nowMs();
    const written = this.#store.probe().then(() => undefined, errorMessage);
    const { promise: finished, resolve } = Promise.withResolvers<void>();
    const probe: Probe = { startMs, isPending: true, finished };
    const finish = (problem: string | undefined) => {
      if (problem !== undefined) this.#writeFailed(problem);
      else if (!this.#hasFailedSince(startMs)) this.succeeded();
      resolve();
    };
    const timer = setTimeout(
      () => finish(`no answer within ${PROBE_MS / 1000} s`),
      PROBE_MS,
    );
    written.then((problem) => {
      clearTimeout(timer);
      probe.isPending = false;
      finish(problem);
    });
    return probe;
  }

  #hasFailedSince(startMs: number): boolean {
    return this.#fileProblem !== undefined ||
      this.#failedMs > startMs - RECOVERY_MS_MIN;
  }

  #checkFile(): void {
    this.#fileCheckedMs = this.#nowMs();
    this.#fileProblem = this.#store.fileProblem();
    this.#update();
  }

  /** A problem of the file explains that of a write, and ends by itself. */
  #writeFailed(problem: string): void {
    this.#checkFile();
    if (this.#fileProblem === undefined) this.#writeProblem ??= problem;
    this.#update();
  }

  #update(): void {
    const problem = this.#fileProblem ?? this.#writeProblem;
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#report(problem);
  }
}
