import { type Clock, SYSTEM_CLOCK } from "./clock.ts";
import type { AcceptedTokens } from "./http/auth.ts";
import { BodyReader } from "./http/body.ts";
import { Door } from "./http/door.ts";
import { RequestHandler } from "./http/handler.ts";
import { BODY_MS_MAX, BUSY_BODY_MS_MAX } from "./limits.ts";
import { Committer } from "./store/committer.ts";
import { type HealthListener, StoreHealth } from "./store/health.ts";
import type { Store } from "./store/kv_store.ts";
import type { StoreError } from "./store/store_error.ts";
import type { Log } from "./telemetry/log.ts";
import { Metrics } from "./telemetry/metrics.ts";

/** What a service needs. */
interface ServiceOptions {
  readonly store: Store;
  readonly tokens: AcceptedTokens;
  readonly log: Log;
  /** The public address, without a trailing slash. */
  readonly baseUrl: string;
  readonly onHealthChange: HealthListener;
  readonly clock?: Clock;
  /** Waits before a commit that met a lock is repeated. */
  readonly pause?: () => Promise<void>;
}

/** The service without its server: its parts, how they are connected, and its life. */
export class Service {
  readonly #bodies: BodyReader;
  readonly #door: Door;
  readonly #committer: Committer;
  readonly #health: StoreHealth;
  readonly #handler: RequestHandler;

  constructor(
    {
      store,
      tokens,
      log,
      baseUrl,
      onHealthChange,
      clock = SYSTEM_CLOCK,
      pause,
    }: ServiceOptions,
  ) {
    const metrics = new Metrics();
    const health = new StoreHealth({ store, onChange: onHealthChange, clock });
    this.#health = health;
    this.#door = new Door({ log, clock });
    const listener = {
      committed(startMs: number) {
        metrics.observeCommit((clock() - startMs) / 1000);
        health.committed(startMs);
      },
      commitFailed: (error: StoreError) => health.commitFailed(error),
    };
    this.#committer = new Committer({ store, listener, clock, pause });
    this.#bodies = new BodyReader({ clock });
    this.#handler = new RequestHandler({
      tokens,
      door: this.#door,
      bodies: this.#bodies,
      committer: this.#committer,
      databaseBytes: () => store.databaseBytes,
      health,
      metrics,
      log,
      clock,
      baseUrl,
    });
  }

  /** Answers a request. Never rejects. */
  handle(request: Request): Promise<Response> {
    return this.#handler.handle(request);
  }

  /**
   * Ends what has reached its deadline, and checks the store. Call it every
   * `SWEEP_MS`.
   */
  sweep(): void {
    this.#bodies.expire(this.#door.isFull ? BUSY_BODY_MS_MAX : BODY_MS_MAX);
    this.#door.sweep();
    this.#committer.expire();
    this.#health.refresh();
  }

  /**
   * Refuses creates from now on, and bodies that are still arriving. Resolves when
   * every running create has its reply.
   */
  async drain(): Promise<void> {
    this.#bodies.refuseAll();
    await this.#door.drain();
  }
}
