import { API_ERRORS, ErrorReply, errorReply, statusOf } from "../errors.ts";
import { QUOTE_CHARS_MAX } from "../limits.ts";
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
import { BODIES_FULL, BodyReader, INCOMPLETE } from "./body.ts";

/** The parts of the service that the handler uses. */
export interface Service {
  readonly tokens: AcceptedTokens;
  readonly committer: Committer;
  readonly health: StoreHealth;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The public address, without a trailing slash. */
  readonly baseUrl: string;
}

/** A reply, or why the request was refused. */
type Answer = Response | ErrorReply;

/** The methods of a path, and the function that answers them. */
interface Route {
  readonly methods: readonly string[];
  readonly answer: (request: Request) => Answer | Promise<Answer>;
}

/** RFC 9110, section 8.3: case-insensitive, with parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;|$)/i;

/** Since 2.8.3, Deno itself adds `Connection: close` to a 408. */
const CLOSES_408 = !/^2\.([67]\.|8\.[0-2]$)/.test(Deno.version.deno);

/** Answers every request of the service. */
export class RequestHandler {
  readonly #service: Service;
  readonly #bodies: BodyReader;
  readonly #routes: ReadonlyMap<string, Route>;
  #running = 0;
  /** Set when the service stops; resolves when no request is running. */
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(service: Service, bodies: BodyReader = new BodyReader()) {
    this.#service = service;
    this.#bodies = bodies;
    this.#routes = this.#makeRoutes();
  }

  /** Answers a request. Rejects only if the log or the metrics fail. */
  async handle(request: Request): Promise<Response> {
    const { log, metrics } = this.#service;
    const startMs = performance.now();
    this.#running++;
    let answer: Answer;
    try {
      answer = await this.#route(request);
    } catch (error) {
      answer = errorReply("internal", log.internalError(error));
    } finally {
      this.#running--;
      if (this.#running === 0) this.#drained?.resolve();
    }
    const response = answer instanceof ErrorReply ? toReply(answer) : answer;
    if (!response.ok) this.#bodies.discard(request);
    const status = answer === INCOMPLETE ? CLIENT_LEFT : response.status;
    metrics.request(status, (performance.now() - startMs) / 1000);
    return response;
  }

  #makeRoutes(): ReadonlyMap<string, Route> {
    const { baseUrl } = this.#service;
    const prefix = new URL(baseUrl).pathname.replace(/\/$/, "");
    const description = descriptionText(baseUrl);
    const page = renderPage(baseUrl);

    const sendPage = () => new Response(page.html, { headers: page.headers });
    const sendDescription = () =>
      new Response(description, {
        headers: { "content-type": "application/json" },
      });
    const routes: Readonly<Record<string, Route>> = {
      "/plants": {
        methods: ["POST"],
        answer: (request) => this.#createPlant(request),
      },
      "": get(sendPage),
      "/": get(sendPage),
      "/openapi.json": get(sendDescription),
      "/livez": get(ok),
      "/readyz": get(() => this.#isReady()),
      "/metrics": get((request) => this.#metrics(request)),
    };
    return new Map(
      Object.entries(routes).map(([path, route]) => [prefix + path, route]),
    );
  }

  #route(request: Request): Answer | Promise<Answer> {
    const path = pathOf(request);
    const route = this.#routes.get(path);
    if (route === undefined) {
      const shorter = path.replace(/\/$/, "");
      const advice = this.#routes.has(shorter) ? `: use ${shorter}` : "";
      return errorReply("unknownPath", shorten(path) + advice);
    }
    const { methods, answer } = route;
    if (methods.includes(request.method)) return answer(request);
    const detail = `${shorten(request.method)}: use ${methods.join(" or ")}`;
    const headers = { "Allow": methods.join(", ") };
    return toReply(errorReply("methodNotAllowed", detail), headers);
  }

  /** POST /plants. The order of the checks is part of the API. */
  async #createPlant(request: Request): Promise<Answer> {
    const refusal = this.#authorize(request) ?? this.#refuseIfStopping() ??
      checkHeaders(request);
    if (refusal !== undefined) return refusal;
    const answer = await this.#bodies.read(
      request,
      (text) => this.#storePlant(text),
    );
    if (answer === BODIES_FULL) this.#service.metrics.create("queue_full");
    return answer;
  }

  async #storePlant(text: string): Promise<Answer> {
    const newPlant = parseNewPlant(text);
    if (newPlant instanceof ErrorReply) return newPlant;

    const { committer, metrics } = this.#service;
    const outcome = await committer.create(newPlant);
    metrics.create(outcome);
    switch (outcome) {
      case "stored":
      case "unchanged":
        return Response.json(newPlant.plant);
      case "conflict":
        return errorReply("idTaken", String(newPlant.id));
      case "queue_full":
        return new ErrorReply("queueFull");
      case "failed":
        return new ErrorReply("storeFailed");
    }
  }

  /** GET /readyz: whether a create would be stored now. */
  async #isReady(): Promise<Answer> {
    const problem = await this.#service.health.probe();
    if (problem === undefined) return this.#refuseIfStopping() ?? ok();
    // Anybody may ask, so only the log names the problem.
    const message = "the store fails: the log of the service says why";
    return new ErrorReply("storeFailed", message);
  }

  #metrics(request: Request): Answer {
    const refusal = this.#authorize(request);
    if (refusal !== undefined) return refusal;
    const { committer, health, metrics } = this.#service;
    const text = metrics.text({
      createsWaiting: committer.waiting,
      bodiesHeldBytes: this.#bodies.heldBytes,
      isStoreHealthy: health.problem === undefined,
    });
    return new Response(text, {
      headers: { "content-type": METRICS_CONTENT_TYPE },
    });
  }

  #refuseIfStopping(): ErrorReply | undefined {
    return this.#drained && new ErrorReply("shuttingDown");
  }

  #authorize({ headers }: Request): ErrorReply | undefined {
    return this.#service.tokens.check(headers.get("authorization"));
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
    this.#bodies.refuseAll(new ErrorReply("shuttingDown"));
    if (this.#running > 0) await this.#drained.promise;
  }
}

/** Checks the headers that describe the body of a create. */
function checkHeaders({ headers }: Request): ErrorReply | undefined {
  const type = headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    return errorReply("contentTypeNotJson", shorten(type) || "none");
  }
  // An empty list names no coding (RFC 9110, section 5.6.1).
  const coding = headers.get("content-encoding") ?? "";
  if (coding === "" || coding.toLowerCase() === "identity") return undefined;
  return errorReply("contentCoding", shorten(coding));
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

/** RFC 9110, section 9.3.2: HEAD works wherever GET does. */
function get(answer: Route["answer"]): Route {
  return { methods: ["GET", "HEAD"], answer };
}

function ok(): Response {
  return Response.json({ status: "ok" });
}

/** Answers a request while the store is being opened: only /livez is well. */
export function replyWhileStarting(request: Request): Response {
  if (pathOf(request).endsWith("/livez")) return ok();
  const message = "the service is starting: send the same request again";
  return toReply(new ErrorReply("storeFailed", message));
}

function toReply(
  { name, message }: ErrorReply,
  headers: Readonly<Record<string, string>> = API_ERRORS[name].headers ?? {},
): Response {
  const { error } = API_ERRORS[name];
  return Response.json({ error, message }, {
    status: statusOf(error),
    headers: name === "bodyTimedOut" && CLOSES_408 ? {} : headers,
  });
}

function shorten(text: string): string {
  return truncate(text, QUOTE_CHARS_MAX);
}
