import type { Clock } from "../clock.ts";
import {
  API_ERRORS,
  ApiError,
  CREATES_ONLY,
  MAY_BE_STORED,
  statusOf,
  TO_CREATE,
} from "../api_errors.ts";
import { CREATES_RUNNING_MAX, QUOTE_CHARS_MAX } from "../limits.ts";
import { truncate } from "../messages.ts";
import { parseNewPlant } from "../plant/plant.ts";
import { descriptionText } from "../reference/openapi.ts";
import { renderPage } from "../reference/page.ts";
import type { Committer } from "../store/committer.ts";
import type { StoreHealth } from "../store/health.ts";
import type { Log } from "../telemetry/log.ts";
import {
  CLIENT_LEFT,
  type Metrics,
  METRICS_CONTENT_TYPE,
} from "../telemetry/metrics.ts";
import type { AcceptedTokens } from "./auth.ts";
import { BodyReader, INCOMPLETE } from "./body.ts";

/** The parts of the service that the handler uses. */
export interface HandlerParts {
  readonly tokens: AcceptedTokens;
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

/** How a path is called. */
interface Access {
  readonly methods: readonly string[];
  readonly needsToken: boolean;
}

const POST: Access = { methods: ["POST"], needsToken: true };

/** RFC 9110, section 9.3.2: HEAD works wherever GET does. */
const GET: Access = { methods: ["GET", "HEAD"], needsToken: false };

/** The path that says whether a create would be stored now. */
export const READY_PATH = "/readyz";

/** Every path that exists, below the base URL. */
export const ROUTES = [
  { path: "/plants", ...POST },
  { path: "", ...GET },
  { path: "/", ...GET },
  { path: "/openapi.json", ...GET },
  { path: "/livez", ...GET },
  { path: READY_PATH, ...GET },
  { path: "/metrics", ...GET, needsToken: true },
] as const;

type Route = typeof ROUTES[number];

/** An unknown path whose client probably looks for plants. */
const LOOKS_FOR_PLANTS = /\/plants?(\/|$)/i;

/** RFC 9110, section 8.3: case-insensitive, with parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;|$)/i;

/** The reply while the service is busy; a clone costs less than a new one. */
const BUSY = toResponse(new ApiError("busy"));

/** Answers every request of the service. */
export class RequestHandler {
  readonly #parts: HandlerParts;
  readonly #bodies: BodyReader;
  /** The path of the base URL. */
  readonly #prefix: string;
  /** By the whole path. */
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #actions: Readonly<
    Record<Route["path"], (request: Request) => Answer | Promise<Answer>>
  > = {
    "/plants": (request) => this.#createPlant(request),
    "": () => this.#sendPage(),
    "/": () => this.#sendPage(),
    "/openapi.json": () => this.#sendDescription(),
    "/livez": ok,
    [READY_PATH]: () => this.#isReady(),
    "/metrics": () => this.#sendMetrics(),
  };
  readonly #page: ReturnType<typeof renderPage>;
  readonly #description: string;
  /** Requests without a reply, and the creates among them. */
  #running = 0;
  #runningCreates = 0;
  /** Set when the service stops; resolves when no request is running. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(parts: HandlerParts) {
    const { baseUrl, clock } = parts;
    this.#parts = parts;
    this.#bodies = new BodyReader(clock);
    this.#prefix = new URL(baseUrl).pathname.replace(/\/$/, "");
    this.#routes = new Map(
      ROUTES.map((route) => [this.#prefix + route.path, route]),
    );
    this.#page = renderPage(baseUrl);
    this.#description = descriptionText(baseUrl);
  }

  /**
   * Answers a request. Fails only if the log or the metrics fail. This is the one
   * place that bounds load: a busy service refuses a POST before it checks
   * anything else, because an overloaded service would do little but refuse if
   * that cost as much as a create. Other methods neither count nor are refused.
   */
  handle(request: Request): Response | Promise<Response> {
    const isBusy = request.method === "POST" &&
      this.#runningCreates >= CREATES_RUNNING_MAX &&
      this.#drained === undefined;
    return isBusy ? this.#refuse(request) : this.#handle(request);
  }

  #refuse(request: Request): Response {
    this.#bodies.discard(request);
    this.#parts.metrics.refused(BUSY.status);
    return BUSY.clone();
  }

  async #handle(request: Request): Promise<Response> {
    const { clock, log, metrics } = this.#parts;
    const startMs = clock.nowMs();
    const creates = request.method === "POST" ? 1 : 0;
    this.#running++;
    this.#runningCreates += creates;
    let answer: Answer;
    try {
      answer = await this.#answer(request);
    } catch (error) {
      answer = new ApiError("internal", log.internalError(error));
    } finally {
      this.#running--;
      this.#runningCreates -= creates;
      if (this.#running === 0) this.#drained?.resolve();
    }
    const response = toResponse(answer);
    this.#bodies.discard(request);
    const status = answer === INCOMPLETE ? CLIENT_LEFT : response.status;
    metrics.request(status, (clock.nowMs() - startMs) / 1000);
    return request.method === "HEAD" ? withoutBody(response) : response;
  }

  #answer(request: Request): Answer | Promise<Answer> {
    const path = pathOf(request);
    const route = this.#routes.get(path);
    if (route === undefined) {
      return new ApiError("unknownPath", shorten(path) + this.#advise(path));
    }
    const { methods, needsToken } = route;
    if (!methods.includes(request.method)) {
      return this.#refuseMethod(request.method, methods);
    }
    const refusal = needsToken ? this.#checkToken(request) : undefined;
    return refusal ?? this.#actions[route.path](request);
  }

  /** Returns what a client may have meant by an unknown path. */
  #advise(path: string): string {
    const parent = path.replace(/\/$/, "");
    if (this.#routes.has(parent)) return `: use ${parent}`;
    return LOOKS_FOR_PLANTS.test(path)
      ? `: use POST ${this.#prefix}/plants ${CREATES_ONLY}`
      : "";
  }

  #refuseMethod(method: string, allowed: readonly string[]): ApiError {
    // HEAD has the headers of GET, also the length of the message.
    const name = method === "HEAD" ? "GET" : shorten(method);
    let advice = allowed.join(" or ");
    if (name === "GET") advice += ` ${CREATES_ONLY}`;
    if (name === "POST") advice = `POST ${this.#prefix}/plants ${TO_CREATE}`;
    const error = new ApiError("methodNotAllowed", `${name}: use ${advice}`);
    error.headers["Allow"] = allowed.join(", ");
    return error;
  }

  #checkToken({ headers }: Request): ApiError | undefined {
    return this.#parts.tokens.check(headers.get("authorization"));
  }

  #refuseIfStopping(): ApiError | undefined {
    return this.#drained && new ApiError("shuttingDown");
  }

  /** POST /plants. The order of the checks is part of the API. */
  async #createPlant(request: Request): Promise<Answer> {
    const refusal = this.#refuseIfStopping() ?? checkHeaders(request);
    if (refusal !== undefined) return refusal;
    const text = await this.#bodies.read(request);
    if (text instanceof ApiError) return text;
    const newPlant = parseNewPlant(text);
    if (newPlant instanceof ApiError) return newPlant;

    const { committer, metrics } = this.#parts;
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

  #sendPage(): Response {
    const { html, headers } = this.#page;
    return new Response(html, { headers });
  }

  #sendDescription(): Response {
    return new Response(this.#description, {
      headers: { "content-type": "application/json" },
    });
  }

  /** GET /readyz: whether a create would be stored now. */
  async #isReady(): Promise<Answer> {
    const error = await this.#parts.health.probe();
    if (error === undefined) return this.#refuseIfStopping() ?? ok();
    // The path needs no token, so only the log names the problem.
    const effect = "a create would fail: the log of the service says why";
    return new ApiError("storeFailed", effect);
  }

  #sendMetrics(): Response {
    const { committer, health, metrics } = this.#parts;
    const text = metrics.text({
      createsWaiting: committer.waiting,
      requestsRunning: this.#running,
      isStoreHealthy: health.error === undefined,
    });
    return new Response(text, {
      headers: { "content-type": METRICS_CONTENT_TYPE },
    });
  }

  /**
   * Refuses bodies that have reached their deadline. Call it regularly. Creates
   * have a deadline of their own, in the committer.
   */
  expire(): void {
    this.#bodies.expire();
  }

  /**
   * Refuses creates from now on, and bodies that are still arriving; resolves
   * when every running request has its reply.
   */
  async drain(): Promise<void> {
    this.#drained = Promise.withResolvers();
    this.#bodies.refuseAll(new ApiError("shuttingDown"));
    if (this.#running > 0) await this.#drained.promise;
  }
}

/** Checks the headers that describe the body of a create. */
function checkHeaders({ headers }: Request): ApiError | undefined {
  const type = headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    return new ApiError("contentTypeNotJson", shorten(type) || "none");
  }
  // An empty list names no coding (RFC 9110, section 5.6.1).
  const coding = headers.get("content-encoding") ?? "";
  if (coding === "" || coding.toLowerCase() === "identity") return undefined;
  return new ApiError("contentCoding", shorten(coding));
}

/**
 * Returns the path of a request. It does not use `new URL`: the runtime copies
 * the Host header into the URL unchecked, so it can be anything, even a path.
 */
function pathOf({ url, headers }: Request): string {
  const rest = url.slice(url.indexOf("//") + 2);
  const host = headers.get("host") ?? "";
  const path = rest.startsWith(`${host}/`)
    ? rest.slice(host.length)
    : rest.slice(rest.search(/[/?#]|$/));
  return path.replace(/[?#].*/s, "");
}

function ok(): Response {
  return Response.json({ status: "ok" });
}

/** Converts an answer to a reply. */
function toResponse(answer: Answer): Response {
  if (answer instanceof Response) return answer;
  const { name, message, headers } = answer;
  const { error } = API_ERRORS[name];
  return Response.json({ error, message }, {
    status: statusOf(error),
    // The runtime adds `Connection: close` to a reply before the end of a body.
    headers: name === "bodyTimedOut" ? {} : headers,
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
