import { AcceptedTokens } from "../../src/http/auth.ts";
import { CREATES_RUNNING_MAX } from "../../src/limits.ts";
import { Service } from "../../src/service.ts";
import { Log } from "../../src/telemetry/log.ts";
import { FakeClock } from "./fake_clock.ts";
import { FakeStore } from "./fake_store.ts";
import type { Entry } from "./plants.ts";
import { type Reply, toBytes, TOKEN } from "./wire.ts";

/** The tokens that the service accepts. */
export const TOKENS = [TOKEN, "second.token~1", "third+/token-_=="];

/** The body of a create. */
export const VALID = '{"id":7,"name":"Fern"}';

/** Every path that exists, and what it accepts. */
export const ROUTES = [
  { path: "/plants", methods: ["POST"], needsToken: true },
  { path: "", methods: ["GET", "HEAD"], needsToken: false },
  { path: "/", methods: ["GET", "HEAD"], needsToken: false },
  { path: "/openapi.json", methods: ["GET", "HEAD"], needsToken: false },
  { path: "/livez", methods: ["GET", "HEAD"], needsToken: false },
  { path: "/readyz", methods: ["GET", "HEAD"], needsToken: false },
  { path: "/metrics", methods: ["GET", "HEAD"], needsToken: true },
];

/** How a request differs from an ordinary create. */
export interface RequestOptions {
  /** Path and query. */
  readonly target?: string;
  readonly method?: string;
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

/** The body of a request. */
type RequestBody =
  | string
  | Uint8Array
  | ReadableStream<Uint8Array<ArrayBuffer>>;

/**
 * Returns a request, by default a create, as the runtime passes it on. A stream as
 * its body has no Content-Length, unless the headers give one.
 */
export function newRequest(
  body: RequestBody,
  { target = "/plants", method = "POST", headers }: RequestOptions = {},
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
  // The runtime passes the Host header on as it is, and an empty path as "/".
  const url = `http://${fields.host}${target || "/"}`;
  const init = {
    body: sent,
    headers: Object.entries(fields).flatMap(([name, values]) =>
      [values].flat().map((value): [string, string] => [name, value])
    ),
  };
  return new RawRequest(url, method, init);
}

/** A service in this process: everything of the real one but socket and file. */
export class TestService {
  readonly clock = new FakeClock();
  readonly store = new FakeStore();
  /** The entries of the log, as text. */
  readonly logged: string[] = [];
  /** What was reported about the store. */
  readonly reported: string[] = [];
  readonly #service: Service;

  constructor(baseUrl = "http://plants.test") {
    this.#service = new Service({
      store: this.store,
      tokens: new AcceptedTokens(TOKENS),
      log: new Log("text", (entry) => this.logged.push(entry)),
      baseUrl,
      onHealthChange: (error) =>
        this.reported.push(error?.message ?? "recovered"),
      clock: this.clock.read,
    });
  }

  /** Answers a request, as for the server. */
  handle(request: Request): Promise<Response> {
    return this.#service.handle(request);
  }

  /** Refuses creates from now on, and resolves when none is running. */
  drain(): Promise<void> {
    return this.#service.drain();
  }

  /** Sweeps after some time. */
  sweepAfter(ms: number): void {
    this.clock.now += ms;
    this.#service.sweep();
  }

  /** Sends a create and reads the reply. */
  async create(
    body: RequestBody,
    options?: RequestOptions,
  ): Promise<Reply> {
    const response = await this.handle(newRequest(body, options));
    const { status, headers } = response;
    return { status, headers, text: await response.text() };
  }

  /** Sends a create in which the service throws, as for a bug of its own. */
  createWithBug(): Promise<Reply> {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (it) => it.error(new TypeError("a bug of this test")),
    });
    // With a length, the end of a connection is no TypeError.
    return this.create(body, { headers: { "content-length": "10" } });
  }

  /** Sends a request without a body. */
  get(target: string, options: RequestOptions = {}): Promise<Reply> {
    const headers = { "content-type": [], "content-length": [] };
    return this.create("", { method: "GET", target, headers, ...options });
  }

  /** Sends creates whose bodies never arrive; returns their replies. */
  startCreates(count: number): Promise<Reply>[] {
    return Array.from(
      { length: count },
      () => this.create(new ReadableStream()),
    );
  }

  /** Sends as many creates as the service accepts, so that it refuses others. */
  becomeBusy(): void {
    this.startCreates(CREATES_RUNNING_MAX);
  }

  /** Returns everything that is stored. */
  stored(): Entry[] {
    const byId = [...this.store.plants].sort(([a], [b]) => Number(a - b));
    return byId.map(([id, plant]) => [["plants", id], plant]);
  }
}
