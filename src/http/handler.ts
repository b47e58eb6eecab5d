import { API_ERRORS, ErrorReply, errorReply, statusOf } from "../errors.ts";
import { QUOTE_CHARS_MAX } from "../limits.ts";
import { truncate } from "../messages.ts";
import { parseNewPlant } from "../plant/plant.ts";
import { descriptionText } from "../reference/openapi.ts";
import { renderPage } from "../reference/page.ts";
import type { Committer } from "../store/committer.ts";
import type { StoreHealth } from "../store/health.ts";
import type { Log } from "../telemetry/log.ts";
import { type Metrics, METRICS_CONTENT_TYPE } from "../telemetry/metrics.ts";
import type { AcceptedTokens } from "./auth.ts";
import { BodyReader } from "./body.ts";

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

/** RFC 9110, section 9.3.2: HEAD works wherever GET does. */
const READ_METHODS = ["GET", "HEAD"];

/** RFC 9110, section 8.3: case-insensitive, with parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;|$)/i;

const NO_TOKEN = new ErrorReply("noToken");
const TOKEN_NOT_ACCEPTED = new ErrorReply("tokenNotAccepted");
const SHUTTING_DOWN = new ErrorReply("shuttingDown");
const QUEUE_FULL = new ErrorReply("queueFull");
const STORE_FAILED = new ErrorReply("storeFailed");

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

  /** Answers a request. Never rejects. */
  async handle(request: Request): Promise<Response> {
    const { log, metrics } = this.#service;
    const startMs = performance.now();
    this.#running++;
    let response: Response;
    try {
      const answer = await this.#route(request);
      response = answer instanceof ErrorReply ? toResponse(answer) : answer;
    } catch (error) {
      response = toResponse(errorReply("internal", log.internalError(error)));
    }
    if (!response.ok) this.#bodies.discard(request);
    metrics.request(response.status, (performance.now() - startMs) / 1000);
    this.#running--;
    if (this.#running === 0) this.#drained?.resolve();
    return response;
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
    this.#bodies.refuseAll(SHUTTING_DOWN);
    if (this.#running > 0) await this.#drained.promise;
  }

  #makeRoutes(): ReadonlyMap<string, Route> {
    const { baseUrl } = this.#service;
    const prefix = new URL(baseUrl).pathname.replace(/\/$/, "");
    const description = descriptionText(baseUrl);
    const page = renderPage(baseUrl);

    const get = (answer: Route["answer"]) => ({
      methods: READ_METHODS,
      answer,
    });
    const reference = get(() =>
      new Response(page.html, { headers: page.headers })
    );
    return new Map<string, Route>([
      [`${prefix}/plants`, {
        methods: ["POST"],
        answer: (request) => this.#createPlant(request),
      }],
      [prefix, reference],
      [`${prefix}/`, reference],
      [
        `${prefix}/openapi.json`,
        get(() =>
          new Response(description, {
            headers: { "content-type": "application/json" },
          })
        ),
      ],
      [`${prefix}/livez`, get(ok)],
      [`${prefix}/readyz`, get(() => this.#isReady())],
      [`${prefix}/metrics`, get((request) => this.#metrics(request))],
    ]);
  }

  #route(request: Request): Answer | Promise<Answer> {
    const path = pathOf(request);
    const route = this.#routes.get(path);
    if (route === undefined) return errorReply("unknownPath", quote(path));
    const { method } = request;
    if (route.methods.includes(method)) return route.answer(request);
    return toResponse(errorReply("methodNotAllowed", quote(method)), {
      "Allow": route.methods.join(", "),
    });
  }

  /** POST /plants. The order of the checks is part of the API. */
  async #createPlant(request: Request): Promise<Answer> {
    const { committer, metrics } = this.#service;
    const refusal = this.#authorize(request) ?? this.#refuseIfStopping() ??
      checkHeaders(request);
    if (refusal !== undefined) return refusal;

    const body = await this.#bodies.read(request);
    if (body instanceof ErrorReply) return body;
    try {
      const newPlant = parseNewPlant(body.text);
      if (newPlant instanceof ErrorReply) return newPlant;

      const outcome = await committer.create(newPlant);
      metrics.create(outcome);
      switch (outcome) {
        case "stored":
        case "unchanged":
          return Response.json(newPlant.plant);
        case "conflict":
          return errorReply("idTaken", String(newPlant.id));
        case "queue_full":
          return QUEUE_FULL;
        case "failed":
          return STORE_FAILED;
      }
    } finally {
      this.#bodies.release(body);
    }
  }

  /** GET /readyz: whether a create would be stored now. */
  async #isReady(): Promise<Answer> {
    const problem = await this.#service.health.probe();
    if (problem !== undefined) {
      return new ErrorReply("storeFailed", `the store fails: ${problem}`);
    }
    return this.#refuseIfStopping() ?? ok();
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
    return this.#drained === undefined ? undefined : SHUTTING_DOWN;
  }

  #authorize(request: Request): ErrorReply | undefined {
    const { tokens } = this.#service;
    switch (tokens.check(request.headers.get("authorization"))) {
      case "accepted":
        return undefined;
      case "no token":
        return NO_TOKEN;
      case "not accepted":
        return TOKEN_NOT_ACCEPTED;
    }
  }
}

/** Checks the headers that describe the body of a create. */
function checkHeaders({ headers }: Request): ErrorReply | undefined {
  const type = headers.get("content-type") ?? "";
  if (!JSON_TYPE.test(type)) {
    return errorReply("contentTypeNotJson", quote(type) || "none");
  }
  // An empty list names no coding (RFC 9110, section 5.6.1).
  const coding = headers.get("content-encoding") ?? "";
  if (coding === "" || coding.toLowerCase() === "identity") return undefined;
  return errorReply("contentCoding", quote(coding));
}

/**
 * Returns the path of a request. It does not use `new URL`: the runtime copies
 * the Host header into the URL unchecked, so it can be anything, even a path.
 */
function pathOf({ url, headers }: Request): string {
  const authority = url.indexOf("//") + 2;
  const host = headers.get("host") ?? "";
  const start = authority +
    (url.startsWith(`${host}/`, authority)
      ? host.length
      : url.slice(authority).search(/[/?#]|$/));
  const path = url.slice(start);
  const end = path.search(/[?#]/);
  return (end < 0 ? path : path.slice(0, end)) || "/";
}

function ok(): Response {
  return Response.json({ status: "ok" });
}

function toResponse(
  { name, message }: ErrorReply,
  headers: Readonly<Record<string, string>> = API_ERRORS[name].headers ?? {},
): Response {
  const { error } = API_ERRORS[name];
  return Response.json({ error, message }, {
    status: statusOf(error),
    headers,
  });
}

function quote(text: string): string {
  return truncate(text, QUOTE_CHARS_MAX);
}
