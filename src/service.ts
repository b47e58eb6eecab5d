import type { Clock } from "./clock.ts";
import {
  type HandlerParts,
  type MeasuredStore,
  RequestHandler,
} from "./http/handler.ts";
import { type CommitStore, Committer } from "./store/committer.ts";
import {
  type HealthReports,
  type ObservedStore,
  StoreHealth,
} from "./store/health.ts";
import {
  Rescue,
  type RescuedStore,
  type RescueReports,
} from "./store/rescue.ts";
import { Metrics } from "./telemetry/metrics.ts";

/** What a service is made of besides its store and its clock. */
export interface ServiceConfig
  extends
    Pick<HandlerParts, "tokens" | "log" | "baseUrl" | "certificateExpires"> {
  /** Receives what the operator needs to know about the store. */
  readonly reports: HealthReports & RescueReports;
}

/** Connects the parts of a service, which answers requests through its handler. */
export function createService(
  store: CommitStore & ObservedStore & RescuedStore & MeasuredStore,
  { reports, ...config }: ServiceConfig,
  clock: Clock,
) {
  const metrics = new Metrics();
  const health = new StoreHealth(store, reports, clock);
  const rescue = new Rescue(store, reports, clock);
  const committer = new Committer(store, {
    committed(seconds, plants) {
      metrics.commit(seconds, plants);
      health.committed(seconds);
    },
    commitFailed: (error) => health.failed(error),
  }, clock);
  const handler = new RequestHandler(
    { ...config, store, committer, health, metrics, clock },
  );
  return {
    handler,
    committer,
    metrics,

    /** Checks all deadlines, and the store. Call it every `CHECK_MS`. */
    check(): void {
      handler.expire();
      committer.expire();
      health.check();
      rescue.check();
    },

    /**
     * Waits until the plants of a lost store are saved. Call it when no request
     * is running, before the store is closed, and `check()` until it resolves.
     */
    finish: () => rescue.finish(),
  };
}
