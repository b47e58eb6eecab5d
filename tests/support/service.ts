import { setTimeout as sleep } from "node:timers/promises";
import { AcceptedTokens } from "../../src/http/auth.ts";
import { BodyReader } from "../../src/http/body.ts";
import { RequestHandler } from "../../src/http/handler.ts";
import {
  COMMIT_PLANTS_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_FILE,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";
import {
  type Clock,
  type CommitResult,
  type CommitStore,
  Committer,
} from "../../src/store/committer.ts";
import { type ObservedStore, StoreHealth } from "../../src/store/health.ts";
import { KvStore } from "../../src/store/kv_store.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { Log } from "../../src/telemetry/log.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { entriesOf, type Entry } from "./entries.ts";
import { TOKEN } from "./program.ts";
import { type Reply, toBytes } from "./wire.ts";

/** The tokens that the service accepts. */
export const TOKENS = [TOKEN, "second.token~1", "third+/token-_=="];

/** A clock that advances only on demand. */
class ManualClock implements Clock {
  #nowMs = 0;

  nowMs(): number {
    return this.#nowMs;
  }

  sleep(): Promise<void> {
    return sleep(0);
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }
}

/** A store in memory, with the bounds of a file, that fails on demand. */
class FaultyStore implements CommitStore, ObservedStore {
  readonly commitPlantsMax = COMMIT_PLANTS_MAX_FILE;
  readonly commitsInFlightMax = COMMITS_IN_FLIGHT_MAX_FILE;
  /** Every operation fails with this problem, if there is one. */
  problem: string | undefined;
  readonly #store: KvStore;
  #resumed: PromiseWithResolvers<void> | undefined;

  constructor(kv: Deno.Kv) {
    // A store of this kind has no file to check.
    const url = "http://kv.test";
    this.#store = new KvStore(kv, { kind: "server", url, token: "kv-token" });
  }

  /** Holds back every operation until {@link resume}. */
  pause(): void {
    this.#resumed = Promise.withResolvers();
  }

  resume(): void {
    this.#resumed?.resolve();
    this.#resumed = undefined;
  }

  async commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    await this.#respond();
    return await this.#store.commit(plants);
  }

  async read(
    ids: readonly bigint[],
  ): Promise<ReadonlyMap<bigint, Plant | null>> {
    await this.#respond();
    return await this.#store.read(ids);
  }

  async probe(): Promise<void> {
    await this.#respond();
    await this.#store.probe();
  }

  fileProblem(): undefined {}

  async #respond(): Promise<void> {
    await this.#resumed?.promise;
    if (this.problem !== undefined) {
      throw new StoreError("other", this.problem);
    }
  }
}

/** How a request differs from an ordinary create. */
export interface RequestOptions {
  /** Path and query. */
  readonly target?: string;
  readonly method?: string;
  /** The whole URL, exactly as the runtime passes it on. */
  readonly url?: string;
  /**
   * Headers that replace ordinary ones of the same name, in lower case: several
   * values repeat the header, and none leave it out.
   */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

/** A request with a URL and a method that `Request` normalizes or refuses. */
class RawRequest extends Request {
  override readonly url: string;
  override readonly method: string;

  constructor(url: string, method: string, init: RequestInit) {
    super("http://plants.test/", { ...init, method: "POST" });
    this.url = url;
    this.method = method;
  }
}

/**
 * Returns a create as the runtime passes it on. A stream as its body has no
 * Content-Length, unless the headers give one.
 */
export function newRequest(
  body: string | Uint8Array | ReadableStream<Uint8Array<ArrayBuffer>>,
  { target = "/plants", method = "POST", url, headers }: RequestOptions = {},
): Request {
  const sent = body instanceof ReadableStream
    ? body
    : new Uint8Array(toBytes(body));
  const fields: Readonly<Record<string, string | readonly string[]>> = {
    "host": "plants.test",
    "authorization": `Bearer ${TOKEN}`,
    "content-type": "application/json",
    "content-length": sent instanceof ReadableStream ? [] : `${sent.length}`,
    ...headers,
  };
  return new RawRequest(url ?? `http://plants.test${target}`, method, {
    body: sent,
    headers: Object.entries(fields).flatMap(([name, values]) =>
      [values].flat().map((value): [string, string] => [name, value])
    ),
  });
}

/** A service in this process: everything of the real one but the socket. */
export class TestService implements Disposable {
  readonly clock = new ManualClock();
  readonly metrics = new Metrics();
  readonly kv: Deno.Kv;
  readonly store: FaultyStore;
  readonly handler: RequestHandler;
  readonly committer: Committer;
  /** The entries of the log, as text. */
  readonly logged: string[] = [];
  readonly log = new Log("text", (entry) => this.logged.push(entry));

  private constructor(kv: Deno.Kv, baseUrl: string) {
    const nowMs = () => this.clock.nowMs();
    this.kv = kv;
    this.store = new FaultyStore(kv);
    const health = new StoreHealth(this.store, () => {}, nowMs);
    this.committer = new Committer(this.store, health, {
      clock: this.clock,
    });
    this.handler = new RequestHandler({
      tokens: new AcceptedTokens(TOKENS),
      committer: this.committer,
      health,
      log: this.log,
      metrics: this.metrics,
      baseUrl,
    }, new BodyReader(nowMs));
  }

  static async start(baseUrl = "http://plants.test"): Promise<TestService> {
    return new TestService(await Deno.openKv(":memory:"), baseUrl);
  }

  /** Sends a request and reads the reply. */
  async send(request: Request): Promise<Reply> {
    const response = await this.handler.handle(request);
    const { status, headers } = response;
    return { status, headers, text: await response.text() };
  }

  /** Sends a create. */
  create(
    body: Parameters<typeof newRequest>[0],
    options?: RequestOptions,
  ): Promise<Reply> {
    return this.send(newRequest(body, options));
  }

  /** Sends a request without a body. */
  get(target: string, options: RequestOptions = {}): Promise<Reply> {
    const headers = { "content-type": [], "content-length": [] };
    return this.send(
      newRequest("", { method: "GET", target, headers, ...options }),
    );
  }

  /** Waits until so many creates have no outcome. */
  async createsWaiting(count: number): Promise<void> {
    while (this.committer.waiting < count) await sleep(0);
  }

  /** Returns everything that is stored. */
  stored(): Promise<Entry[]> {
    return entriesOf(this.kv);
  }

  [Symbol.dispose](): void {
    this.kv.close();
  }
}
