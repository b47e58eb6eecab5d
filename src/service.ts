import type { Clock } from "./clock.ts";
import { BodyReader } from "./http/body.ts";
import { type HandlerParts, RequestHandler } from "./http/handler.ts";
import { Committer } from "./store/committer.ts";
import { type HealthReport, StoreHealth } from "./store/health.ts";
import type { Store } from "./store/kv_store.ts";
import { Metrics } from "./telemetry/metrics.ts";

/** The parts of a service besides its store and its clock. */
type ServiceConfig =
  & Pick<HandlerParts, "tokens" | "log" | "baseUrl">
  & { readonly report: HealthReport };

/** Connects the parts of a service, which answers requests through its handler. */
export function createService(
  store: Store,
  { report, ...config }: ServiceConfig,
  clock: Clock,
) {
  const metrics = new Metrics();
  const health = new StoreHealth(store, report, clock);
  const committer = new Committer(store, {
    committed(seconds) {
      metrics.commit(seconds);
      health.committed(seconds);
    },
    commitFailed: (error) => health.failed(error),
  }, clock);
  const bodies = new BodyReader(clock);
  return {
    handler: new RequestHandler(
      { ...config, store, bodies, committer, health, metrics, clock },
    ),

    /** Checks all deadlines, and the store. Call it every `CHECK_MS`. */
    check(): void {
      bodies.expire();
      committer.expire();
      health.check();
    },
  };
}
