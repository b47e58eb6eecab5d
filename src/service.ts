import type { Clock } from "./clock.ts";
import type { AcceptedTokens } from "./http/auth.ts";
import { BodyReader } from "./http/body.ts";
import { RequestHandler } from "./http/handler.ts";
import { Committer } from "./store/committer.ts";
import { type HealthReport, StoreHealth } from "./store/health.ts";
import type { Store } from "./store/kv_store.ts";
import type { Log } from "./telemetry/log.ts";
import { Metrics } from "./telemetry/metrics.ts";

/** What a service needs besides its store and its clock. */
interface ServiceConfig {
  readonly tokens: AcceptedTokens;
  readonly log: Log;
  /** The public address, without a trailing slash. */
  readonly baseUrl: string;
  readonly report: HealthReport;
}

/** A service whose parts are connected. */
export interface Service {
  readonly handler: RequestHandler;

  /** Ends what has reached its deadline, and checks the store. Call it every `SWEEP_MS`. */
  sweep(): void;
}

/** Connects the parts of a service. */
export function createService(
  store: Store,
  { tokens, log, baseUrl, report }: ServiceConfig,
  clock: Clock,
): Service {
  const metrics = new Metrics();
  const health = new StoreHealth(store, report, clock);
  const committer = new Committer(store, {
    committed(startMs) {
      metrics.commit((clock() - startMs) / 1000);
      health.succeeded(startMs);
    },
    commitFailed: (error) => health.commitFailed(error),
  }, clock);
  const bodies = new BodyReader(clock);
  const handler = new RequestHandler({
    tokens,
    bodies,
    committer,
    store,
    health,
    metrics,
    log,
    clock,
    baseUrl,
  });

  function sweep(): void {
    bodies.expire();
    committer.expire();
    health.refresh();
  }

  return { handler, sweep };
}
