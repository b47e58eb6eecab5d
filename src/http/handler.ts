import type { Clock } from "../clock.ts";
import {
  adviseToCreate,
  API_ERRORS,
  ApiError,
  MAY_BE_STORED,
  statusOf,
} from "../api_errors.ts";
import { CREATES_RUNNING_MAX, QUOTE_CHARS_MAX } from "../limits.ts";
import { InvalidText } from "../plant/invalid_text.ts";
import { parseNewPlant } from "../plant/plant.ts";
import { descriptionText } from "../reference/openapi.ts";
import { renderPage } from "../reference/page.ts";
import type { Committer } from "../store/committer.ts";
import type { StoreHealth } from "../store/health.ts";
import type { Store } from "../store/kv_store.ts";
import type { Log } from "../telemetry/log.ts";
import {
  DISCONNECTED_STATUS,
  type Metrics,
  METRICS_CONTENT_TYPE,
} from "../telemetry/metrics.ts";
import { truncate } from "../text.ts";
import type { AcceptedTokens } from "./auth.ts";
import { type BodyReader, DISCONNECTED } from "./body.ts";
import { prefixOf, READY_PATH } from "./origin.ts";

/** The parts of the service that the handler uses. */
export interface HandlerParts {
  readonly tokens: AcceptedTokens;
  readonly bodies: BodyReader;
  readonly store: Pick<Store, "databaseBytes">;
  readonly committer: Committer;
  readonly health: StoreHealth;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** The public address, without a trailing slash. */
  readonly baseUrl: string;
}

/** A reply, or why the request was refused. */
type Answer = Response | ApiError;

/** What a path answers. */
interface Route {
  readonly methods: readonly string[];
  readonly needsToken: boolean;
  readonly answer: (request: Request) => Answer | Promise<Answer>;
}

/** RFC 9110, section 9.3.2: HEAD works wherever GET does. */
const PUBLIC = { methods: ["GET", "HEAD"], needsToken: false };

/** RFC 9110, section 8.3: case-insensitive, with parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;|$)/i;

/** A host (RFC 3986, section 3.2.2), perhaps with a port; it may be empty. */
const HOST = /^(\[[\w.:%]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?$/;

/** The reply while the service is busy; a clone costs less than a new one. */
const BUSY = toResponse(new ApiError("busy"));

/** Answers every request of the service. */
export class RequestHandler {
  readonly #parts: HandlerParts;
  /** The advice in the refusal of a path or a method. */
  readonly #advice: string;
  /** Every path that exists, with the path of the base URL. */
  readonly #routes: ReadonlyMap<string, Route>;
  /** Requests without a reply. */
  #running = 0;
  /** POSTs among them; each counts as a create. */
  #runningCreates = 0;
  /** Set when the service stops; resolves when no request is running. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
    const prefix = prefixOf(parts.baseUrl);
    this.#advice = adviseToCreate(prefix);
    const { html, headers } = renderPage(parts.baseUrl);
    const description = descriptionText(parts.baseUrl);
    const page: Route = {
      ...PUBLIC,
      answer: () => new Response(html, { headers }),
    };
    const routes: Readonly<Record<string, Route>> = {
      "/plants": {
        methods: ["POST"],
        needsToken: true,
        answer: (request) => this.#createPlant(request),
      },
      "": page,
      "/": page,
      "/openapi.json": {
        ...PUBLIC,
        answer: () => reply(description, "application/json"),
      },
      "/livez": { ...PUBLIC, answer: ok },
      [READY_PATH]: { ...PUBLIC, answer: () => this.#sendReadiness() },
      "/metrics": {
        ...PUBLIC,
        needsToken: true,
        answer: () => this.#sendMetrics(),
      },
    };
    this.#routes = new Map(
      Object.entries(routes).map(([path, route]) => [prefix + path, route]),
    );
  }

  /**
   * Answers a request of `http/server.ts`. This is the one place that bounds load:
   * a busy service refuses a POST before it checks anything else, because an
   * overloaded service would do little but refuse if that cost as much as a
   * create. Other methods neither count nor are refused.
   */
  handle(request: Request): Response | Promise<Response> {
    const isBusy = request.method === "POST" &&
      this.#runningCreates >= CREATES_RUNNING_MAX;
    return isBusy ? this.#refuseBusy(request) : this.#admit(request);
  }

  #refuseBusy(request: Request): Response {
    this.#parts.bodies.discard(request);
    this.#parts.metrics.request(BUSY.status);
    return BUSY.clone();
  }

  async #admit(request: Request): Promise<Response> {
    const { bodies, clock, log, metrics } = this.#parts;
    const startMs = clock();
    const creates = request.method === "POST" ? 1 : 0;
    this.#running++;
    this.#runningCreates += creates;
    let status: number | undefined;
    let response: Response;
    try {
      const answer = await this.#route(request);
      if (answer === DISCONNECTED) status = DISCONNECTED_STATUS;
      response = toResponse(answer);
    } catch (error) {
      response = toResponse(
        new ApiError("internal", log.internalError(error)),
      );
    } finally {
      this.#running--;
      this.#runningCreates -= creates;
      if (this.#running === 0) this.#drained?.resolve();
    }
    if (creates === 0) response.headers.set("Cache-Control", "no-store");
    if (request.method === "HEAD") response = await withoutBody(response);
    // A create that succeeded has read its body. The runtime discards that of a
    // GET itself.
    if (!response.ok) bodies.discard(request);
    metrics.request(
      status ?? response.status,
      (clock() - startMs) / 1000,
    );
    return response;
  }

  #route(request: Request): Answer | Promise<Answer> {
    const host = request.headers.get("host") ?? "";
    // The URL of a request contains it as it is, so it could change the path.
    if (!HOST.test(host)) return new ApiError("badHost", shorten(host));
    const path = pathOf(request);
    const route = this.#routes.get(path);
    if (route === undefined) {
      return new ApiError("unknownPath", `${shorten(path)}: ${this.#advice}`);
    }
    const { methods, needsToken, answer } = route;
    if (!methods.includes(request.method)) {
      return this.#refuseMethod(request.method, methods);
    }
    const refusal = needsToken
      ? this.#parts.tokens.check(request.headers.get("authorization"))
      : undefined;
    return refusal ?? answer(request);
  }

  #refuseMethod(method: string, allowed: readonly string[]): Response {
    // HEAD has the headers of GET, also the length of the message.
    const name = method === "HEAD" ? "GET" : shorten(method);
    const reply = toResponse(
      new ApiError("methodNotAllowed", `${name}: ${this.#advice}`),
    );
    reply.headers.set("Allow", allowed.join(", "));
    return reply;
  }

  #refuseIfStopping(): ApiError | undefined {
    return this.#drained && new ApiError("shuttingDown");
  }

  /** POST /plants. The order of the checks is part of the API. */
  async #createPlant(request: Request): Promise<Answer> {
    const refusal = this.#refuseIfStopping() ?? checkHeaders(request);
    if (refusal !== undefined) return refusal;
    const { bodies, committer, metrics } = this.#parts;
    const text = await bodies.read(request);
    if (typeof text !== "string") return text;
    const newPlant = parseNewPlant(text);
    if (newPlant instanceof InvalidText) return toApiError(newPlant);
    const outcome = await committer.create(newPlant);
    metrics.create(outcome);
    switch (outcome) {
      case "stored":
      case "replayed":
        return Response.json(newPlant.plant);
      case "conflict":
        return new ApiError("idTaken", String(newPlant.id));
      case "failed":
        return new ApiError("storeFailed", MAY_BE_STORED);
    }
  }

  /** GET /readyz: whether a create would be stored now. */
  async #sendReadiness(): Promise<Answer> {
    const error = await this.#parts.health.probe();
    if (error === undefined) return this.#refuseIfStopping() ?? ok();
    // The path needs no token, so only the log names the problem.
    const effect = "a create would fail: the log of the service says why";
    return new ApiError("storeFailed", effect);
  }

  #sendMetrics(): Response {
    const { health, metrics, store } = this.#parts;
    const text = metrics.text({
      requestsRunning: this.#running,
      isStoreHealthy: health.error === undefined,
      databaseBytes: store.databaseBytes,
    });
    return reply(text, METRICS_CONTENT_TYPE);
  }

  /**
   * Refuses creates from now on, and bodies that are still arriving; resolves
   * when every running request has its reply.
   */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    this.#parts.bodies.refuseAll(new ApiError("shuttingDown"));
    if (this.#running > 0) await this.#drained.promise;
  }
}

/** Checks the headers that describe the body of a create. */
function checkHeaders({ headers }: Request): ApiError | undefined {
  const type = headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    return new ApiError("contentTypeNotJson", shorten(type) || "none");
  }
  // Measured: has() costs less than get().
  if (!headers.has("content-encoding")) return undefined;
  // An empty list names no coding (RFC 9110, section 5.6.1).
  const coding = headers.get("content-encoding") ?? "";
  if (coding === "" || coding.toLowerCase() === "identity") return undefined;
  return new ApiError("contentCoding", shorten(coding));
}

/**
 * Returns the path of a request. It does not use `new URL`, which throws if the
 * client sent a Host header that is no host.
 */
function pathOf({ url }: Request): string {
  return /\/\/[^/?]*([^?]*)/.exec(url)?.[1] ?? "";
}

/** Converts what is wrong with the text of a body. */
function toApiError({ kind, message, position }: InvalidText): ApiError {
  const where = position === undefined
    ? ""
    : `line ${position.line}, column ${position.column}: `;
  return kind === "not JSON"
    ? new ApiError("notJson", where + message)
    : new ApiError("notANewPlant", message);
}

function ok(): Response {
  return Response.json({ status: "ok" });
}

function reply(text: string, type: string): Response {
  return new Response(text, { headers: { "content-type": type } });
}

function toResponse(answer: Answer): Response {
  if (answer instanceof Response) return answer;
  const { name, message } = answer;
  const { error, headers = {} } = API_ERRORS[name];
  return Response.json({ error, message }, {
    status: statusOf(error),
    headers,
  });
}

/**
 * Converts a reply to one to HEAD. Over HTTP/2, the runtime would send its body,
 * and over HTTP/1.1 it would state the length of an empty one.
 */
async function withoutBody(response: Response): Promise<Response> {
  const { status, headers } = response;
  const { length } = await response.bytes();
  headers.set("Content-Length", `${length}`);
  return new Response(null, { status, headers });
}

function shorten(text: string): string {
  return truncate(text, QUOTE_CHARS_MAX);
}
