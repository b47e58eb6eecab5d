import { FILE_CHECK_MS_MAX, PROBE_MS, RECOVERY_MS_MIN } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import type { CommitHealth } from "./committer.ts";

/** The store as its health is observed. */
export interface ObservedStore {
  /** Returns the problem of the database file; cheap. */
  fileProblem(): string | undefined;
  /** Makes {@link fileProblem} include the files beside the database. */
  checkCompanions(): void;
  /** Writes without a trace; throws on failure. May never settle. */
  probe(): Promise<void>;
}

/** One probe write, shared by all callers while it is current. */
interface Probe {
  readonly startMs: number;
  /** Whether the write has not settled; it may never do. */
  isPending: boolean;
  /** Settles with the write, but within {@link PROBE_MS}. */
  readonly isKnown: Promise<void>;
}

/**
 * The health of the store: commits report to it, the files are checked, and a
 * probe write shows what a create would meet while no create arrives. `/readyz`,
 * the metrics, the log and the committer all read this one state.
 */
export class StoreHealth implements CommitHealth {
  readonly #store: ObservedStore;
  readonly #report: (problem: string | undefined) => void;
  readonly #nowMs: () => number;
  /** The problem last reported, `undefined` while the store is healthy. */
  #problem: string | undefined;
  #fileProblem: string | undefined;
  #fileCheckedMs = -Infinity;
  #failedMs = -Infinity;
  #probe: Probe | undefined;

  /**
   * @param report called with the problem when the store starts to fail or a
   * file check finds another one, and with `undefined` when it has recovered
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

  /** Reports that a commit failed. */
  failed(problem: string): void {
    this.#failedMs = this.#nowMs();
    this.#start(problem);
  }

  /** Reports that a commit succeeded, so the file was in place. */
  succeeded(): void {
    this.#fileProblem = undefined;
    if (this.#problem !== undefined) this.#set(undefined);
  }

  /** Checks the files, and probes a store that fails until it has recovered. */
  sweep(): void {
    this.#store.checkCompanions();
    this.#checkFile();
    if (this.#problem !== undefined) this.probe();
  }

  /**
   * Checks whether a create would be stored now, by a probe write: one at a
   * time, and one in {@link PROBE_MS}, however many callers there are.
   * @returns the problem, or `undefined` if the store is healthy
   */
  async probe(): Promise<string | undefined> {
    const last = this.#probe;
    const isCurrent = last !== undefined &&
      (last.isPending || this.#nowMs() - last.startMs < PROBE_MS);
    const probe = isCurrent ? last : this.#startProbe();
    this.#probe = probe;
    await probe.isKnown;
    this.#store.checkCompanions();
    this.#checkFile();
    return this.#problem;
  }

  #startProbe(): Probe {
    const startMs = this.#nowMs();
    const written = this.#store.probe().then(() => undefined, errorMessage);
    const known = Promise.withResolvers<void>();
    const probe: Probe = { startMs, isPending: true, isKnown: known.promise };
    const conclude = (problem: string | undefined) => {
      if (problem !== undefined) this.#start(problem);
      else if (!this.#hasFailedSince(startMs)) this.succeeded();
      known.resolve();
    };
    const timer = setTimeout(
      () => conclude(`no answer within ${PROBE_MS / 1000} s`),
      PROBE_MS,
    );
    written.then((problem) => {
      clearTimeout(timer);
      probe.isPending = false;
      conclude(problem);
    });
    return probe;
  }

  #hasFailedSince(startMs: number): boolean {
    return this.#fileProblem !== undefined ||
      this.#failedMs > startMs - RECOVERY_MS_MIN;
  }

  #checkFile(): void {
    this.#fileCheckedMs = this.#nowMs();
    const problem = this.#store.fileProblem();
    if (problem === this.#fileProblem) return;
    this.#fileProblem = problem;
    if (problem !== this.#problem) this.#set(problem);
  }

  /** Keeps the first problem until the store has recovered. */
  #start(problem: string): void {
    if (this.#problem === undefined) this.#set(problem);
  }

  #set(problem: string | undefined): void {
    this.#problem = problem;
    this.#report(problem);
  }
}
