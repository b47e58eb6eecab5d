import type { Clock } from "./clock.ts";
import type { AcceptedTokens } from "./http/auth.ts";
import { RequestHandler } from "./http/handler.ts";
import { Committer } from "./store/committer.ts";
import { type HealthReport, StoreHealth } from "./store/health.ts";
import type { Store } from "./store/store.ts";
import type { Log } from "./telemetry/log.ts";
import { Metrics } from "./telemetry/metrics.ts";

/** The parts of a service besides its store and its clock. */
export interface ServiceConfig {
  readonly tokens: AcceptedTokens;
  readonly log: Log;
  /** The public address, without a trailing slash. */
  readonly baseUrl: string;
  readonly report: HealthReport;
}

/** Connects the parts of a service, which answers requests through its handler. */
export function createService(
  store: Store,
  { tokens, log, baseUrl, report }: ServiceConfig,
  clock: Clock,
) {
  const metrics = new Metrics(() => ({
    createsWaiting: committer.waiting,
    isStoreHealthy: health.error === undefined,
    databaseBytes: store.databaseBytes,
  }));
  const health = new StoreHealth(store, report, clock);
  const committer = new Committer(store, {
    committed(seconds, plants) {
      metrics.commit(seconds, plants);
      health.committed(seconds);
    },
    commitFailed: (error) => health.failed(error),
  }, clock);
  const handler = new RequestHandler(
    { tokens, log, baseUrl, committer, health, metrics, clock },
  );
  return {
    handler,

    /** Checks all deadlines, and the store. Call it every `CHECK_MS`. */
    check(): void {
      handler.expire();
      committer.expire();
      health.check();
    },
  };
}
