import type { Clock } from "../clock.ts";
import { API_ERRORS, ApiError, howToCreate, statusOf } from "../api_errors.ts";
import { QUOTE_CHARS_MAX } from "../limits.ts";
import { InvalidText, parseNewPlant } from "../plant/plant.ts";
import { descriptionText } from "../reference/openapi.ts";
import { renderPage } from "../reference/page.ts";
import type { Committer } from "../store/committer.ts";
import type { StoreHealth } from "../store/health.ts";
import type { Log } from "../telemetry/log.ts";
import { type Metrics, METRICS_CONTENT_TYPE } from "../telemetry/metrics.ts";
import { truncate } from "../text.ts";
import type { AcceptedTokens } from "./auth.ts";
import type { BodyReader } from "./body.ts";
import type { Door } from "./door.ts";
import { normalizePath, prefixOf } from "./origin.ts";

/** The parts of the service that the handler uses. */
interface HandlerParts {
  readonly tokens: AcceptedTokens;
  readonly door: Door;
  readonly bodies: BodyReader;
  /** Returns the size of the database file; `undefined` if the store is no file. */
  readonly databaseBytes: () => number | undefined;
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

/** The path that says whether the service is ready; a healthcheck calls it. */
export const READY_PATH = "/readyz";

/** A path to read. RFC 9110, section 9.3.2: HEAD works wherever GET does. */
const READ = { methods: ["GET", "HEAD"], needsToken: false };

/** RFC 9110, section 8.3: case-insensitive, with parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;|$)/i;

/**
 * A host (RFC 3986, section 3.2.2), perhaps with a port; it may be empty. An address
 * may have a zone of unreserved characters (RFC 6874), also after a bare "%".
 */
const HOST = /^(\[[\w.:%~-]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?$/;

/** The reply while the service is busy; a clone costs less than a new one. */
const BUSY = toResponse(new ApiError("busy"));

/** Answers every request of the service. */
export class RequestHandler {
  readonly #parts: HandlerParts;
  /** Every path that exists, normalized, with the path of the base URL. */
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #howToCreate: string;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
    this.#howToCreate = howToCreate(parts.baseUrl);
    const prefix = prefixOf(parts.baseUrl);
    const { html, headers } = renderPage(parts.baseUrl);
    const description = descriptionText(parts.baseUrl);
    const page: Route = {
      ...READ,
      answer: () => new Response(html, { headers }),
    };
    const routes: Readonly<Record<string, Route>> = {
      "/plants": {
        methods: ["POST"],
        needsToken: true,
        answer: (request) => this.#createPlant(request),
      },
      // With the base URL https://plants.example/api, the page is at /api/ and at /api.
      "/": page,
      "": page,
      "/openapi.json": {
        ...READ,
        answer: () => reply(description, "application/json"),
      },
      "/livez": { ...READ, answer: ok },
      [READY_PATH]: { ...READ, answer: () => this.#sendReadiness() },
      "/metrics": {
        ...READ,
        needsToken: true,
        answer: () => this.#sendMetrics(),
      },
    };
    this.#routes = new Map(
      Object.entries(routes).map(([path, route]) => [prefix + path, route]),
    );
  }

  /**
   * Answers a request of `http/server.ts`. Every POST request must first enter the
   * door. A busy service refuses the request without any check: if a refusal cost as
   * much as a create, an overloaded service would do little else.
   */
  async handle(request: Request): Promise<Response> {
    const { clock, door, log, metrics } = this.#parts;
    const isPost = request.method === "POST";
    if (isPost && !door.enter()) {
      metrics.countRequest("POST", BUSY.status);
      return BUSY.clone();
    }
    const startMs = clock();
    let response: Response;
    try {
      response = toResponse(await this.#route(request));
    } catch (error) {
      const id = log.internalError(error);
      response = toResponse(new ApiError("internal", id));
    } finally {
      if (isPost) door.leave();
    }
    metrics.countRequest(request.method, response.status);
    if (isPost) {
      metrics.observePost((clock() - startMs) / 1000);
      return response;
    }
    response.headers.set("Cache-Control", "no-store");
    return request.method === "HEAD" ? await withoutBody(response) : response;
  }

  /** Checks what every path checks first: host, path, method and token. */
  #route(request: Request): Answer | Promise<Answer> {
    const host = request.headers.get("host") ?? "";
    // The URL of a request contains the host unchanged, so it could change the path.
    if (!HOST.test(host)) return new ApiError("badHost", shorten(host));
    const path = pathOf(request);
    // Nearly every path is found as it is.
    const route = this.#routes.get(path) ??
      this.#routes.get(normalizePath(path));
    if (route === undefined) {
      const detail = `${shorten(path)}: ${this.#howToCreate}`;
      return new ApiError("unknownPath", detail);
    }
    const { methods, needsToken, answer } = route;
    if (!methods.includes(request.method)) {
      return this.#refuseMethod(request.method, methods);
    }
    if (!needsToken) return answer(request);
    const header = request.headers.get("authorization");
    return this.#parts.tokens.authorize(header) ?? answer(request);
  }

  #refuseMethod(method: string, allowed: readonly string[]): Response {
    // A reply to HEAD has the Content-Length of the reply to GET, so the message
    // must be the same.
    const name = method === "HEAD" ? "GET" : shorten(method);
    const detail = `${name}: ${this.#howToCreate}`;
    const refusal = toResponse(new ApiError("methodNotAllowed", detail));
    refusal.headers.set("Allow", allowed.join(", "));
    return refusal;
  }

  /** POST /plants. The order of the checks is part of the API. */
  async #createPlant(request: Request): Promise<Answer> {
    const { bodies, committer, door, metrics } = this.#parts;
    if (door.isDraining) return new ApiError("shuttingDown");
    const refusal = checkHeaders(request);
    if (refusal !== undefined) return refusal;
    const bytes = await bodies.read(request);
    if (bytes instanceof ApiError) return bytes;
    const newPlant = parseNewPlant(bytes);
    if (newPlant instanceof InvalidText) return toApiError(newPlant);
    const outcome = await committer.create(newPlant);
    metrics.countCreate(outcome);
    switch (outcome) {
      case "stored":
      case "replayed":
        return Response.json(newPlant.plant);
      case "conflict":
        return new ApiError("idTaken", String(newPlant.id));
      case "failed":
        return new ApiError("storeFailed");
    }
  }

  /**
   * GET /readyz: whether the store works and the service is not stopping. A service that
   * is busy is ready, because it stores the creates that it has admitted.
   */
  async #sendReadiness(): Promise<Answer> {
    const { door, health } = this.#parts;
    if (await health.probe() !== undefined) return new ApiError("notReady");
    return door.isDraining ? new ApiError("shuttingDown") : ok();
  }

  #sendMetrics(): Response {
    const { door, health, metrics, tokens, databaseBytes } = this.#parts;
    const text = metrics.text({
      postsRunning: door.posts,
      isStoreHealthy: health.error === undefined,
      tokenRequests: tokens.requests,
      databaseBytes: databaseBytes(),
    });
    return reply(text, METRICS_CONTENT_TYPE);
  }
}

/** Checks the headers that describe the body of a create. */
function checkHeaders({ headers }: Request): ApiError | undefined {
  const type = headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    return new ApiError("contentTypeNotJson", shorten(type) || "none");
  }
  // An empty list names no coding (RFC 9110, section 5.6.1).
  const coding = headers.get("content-encoding") || "identity";
  if (coding.toLowerCase() === "identity") return undefined;
  return new ApiError("contentCoding", shorten(coding));
}

/** Returns the path of a request. `new URL` would throw for a port above 65535. */
function pathOf({ url }: Request): string {
  return /\/\/[^/?]*([^?]*)/.exec(url)?.[1] ?? "";
}

/** Converts what is wrong with a body. */
function toApiError({ kind, message, position }: InvalidText): ApiError {
  const where = position === undefined
    ? ""
    : `line ${position.line}, column ${position.column}: `;
  switch (kind) {
    case "not UTF-8":
      return new ApiError("notUtf8");
    case "not JSON":
      return new ApiError("notJson", where + message);
    case "not a NewPlant":
      return new ApiError("notANewPlant", message);
  }
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
