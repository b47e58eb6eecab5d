import type { AcceptedTokens } from "./auth.ts";
import { type BodyReader, discardBody } from "./body.ts";
import type { Committer } from "./committer.ts";
import { ERROR, type ErrorNumber, Refusal } from "./errors.ts";
import { COMMIT_MS_MAX, DRAIN_MS_MAX } from "./limits.ts";
import type { Log } from "./log.ts";
import { type Metrics, METRICS_CONTENT_TYPE } from "./metrics.ts";
import { descriptionText } from "./openapi.ts";
import { renderPage } from "./page.ts";
import { type NewPlant, readNewPlant } from "./plant.ts";
import type { Store } from "./store.ts";

/** What answering a request needs. */
export interface Service {
  readonly tokens: AcceptedTokens;
  readonly bodies: BodyReader;
  readonly committer: Committer;
  readonly store: Pick<Store, "isReady">;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The public address, without a slash at its end. */
  readonly baseUrl: string;
  /** Requests that are not answered yet. */
  running: number;
  /** Whether the service stops and takes no more creates. */
  isDraining: boolean;
}

/** RFC 9110, section 11.6.1; RFC 6750, section 3. */
const CHALLENGE = 'Bearer realm="plants"';

/** Headers that a refusal has beside its body (RFC 9110, section 10.2.3). */
const HEADERS: Partial<Record<ErrorNumber, Record<string, string>>> = {
  [ERROR.NO_TOKEN]: { "www-authenticate": CHALLENGE },
  [ERROR.TOKEN_NOT_ACCEPTED]: {
    "www-authenticate": `${CHALLENGE}, error="invalid_token"`,
  },
  // RFC 9110, section 15.5.9. Deno 2.9 adds the same by itself.
  [ERROR.BODY_TIMED_OUT]: { "connection": "close" },
  [ERROR.SHUTTING_DOWN]: { "retry-after": `${DRAIN_MS_MAX / 1000}` },
  [ERROR.QUEUE_FULL]: { "retry-after": "1" },
  [ERROR.STORE_FAILED]: { "retry-after": `${COMMIT_MS_MAX / 1000}` },
};

/** Methods of what can be read (RFC 9110, section 9.3.2: HEAD as GET). */
const READ = ["GET", "HEAD"];

/** Why a stopping service creates nothing more. */
export const SHUTTING_DOWN = new Refusal(
  ERROR.SHUTTING_DOWN,
  "the service is shutting down: send the same request again",
);

const NO_TOKEN = new Refusal(
  ERROR.NO_TOKEN,
  'Authorization: expected "Bearer" and one token',
);

const TOKEN_NOT_ACCEPTED = new Refusal(
  ERROR.TOKEN_NOT_ACCEPTED,
  "Authorization: this token is not accepted",
);

const QUEUE_FULL = new Refusal(
  ERROR.QUEUE_FULL,
  "too many creates are waiting: send the same request again",
);

const STORE_FAILED = new Refusal(
  ERROR.STORE_FAILED,
  "the store failed or did not answer in time, so the plant may or may not " +
    "be stored: send the same request again",
);

/** What answers at a path, and to which methods. */
interface Route {
  readonly methods: readonly string[];
  readonly answer: (
    request: Request,
  ) => Response | Refusal | Promise<Response | Refusal>;
}

/**
 * Answers every request of a service, in the order of its checks. What it
 * returns never rejects.
 */
export function makeHandler(
  service: Service,
): (request: Request) => Promise<Response> {
  const routes = makeRoutes(service);

  function answer(
    request: Request,
  ): Response | Refusal | Promise<Response | Refusal> {
    const path = pathOf(request);
    const route = routes.get(path);
    if (route === undefined) return noSuchPath(path);
    if (route.methods.includes(request.method)) return route.answer(request);
    return refuse(methodNotAllowed(route.methods, request.method), {
      allow: route.methods.join(", "),
    });
  }

  return async function handle(request) {
    const startMs = performance.now();
    service.running++;
    let response: Response;
    try {
      const answered = await answer(request);
      response = answered instanceof Refusal ? refuse(answered) : answered;
    } catch (error) {
      response = answerFault(service, error);
    }
    if (!response.ok) discardBody(request);
    service.running--;
    service.metrics.request(
      response.status,
      (performance.now() - startMs) / 1000,
    );
    return response;
  };
}

function makeRoutes(service: Service): ReadonlyMap<string, Route> {
  const prefix = new URL(service.baseUrl).pathname.replace(/\/$/, "");
  const description = descriptionText(service.baseUrl);
  const { html, contentSecurityPolicy } = renderPage(service.baseUrl);
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": contentSecurityPolicy,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  };
  const page: Route = {
    methods: READ,
    answer: () => new Response(html, { headers }),
  };
  return new Map<string, Route>([
    [`${prefix}/plants`, {
      methods: ["POST"],
      answer: (request) => createPlant(service, request),
    }],
    [`${prefix}/openapi.json`, {
      methods: READ,
      answer: () =>
        new Response(description, {
          headers: { "content-type": "application/json" },
        }),
    }],
    // A prefix is an address that people type without a slash, too.
    [prefix, page],
    [`${prefix}/`, page],
    [`${prefix}/livez`, { methods: READ, answer: () => ok() }],
    [`${prefix}/readyz`, {
      methods: READ,
      answer: () => answerReady(service),
    }],
    [`${prefix}/metrics`, {
      methods: READ,
      answer: (request) => answerMetrics(service, request),
    }],
  ]);
}

async function createPlant(
  service: Service,
  request: Request,
): Promise<Response | Refusal> {
  const unauthorized = authorize(service, request);
  if (unauthorized !== undefined) return unauthorized;
  if (service.isDraining) return SHUTTING_DOWN;

  const contentType = request.headers.get("content-type");
  if (!isJson(contentType)) return contentTypeNotJson(contentType);

  const body = await service.bodies.read(request);
  if (body instanceof Refusal) return body;

  const newPlant = readNewPlant(body);
  if (newPlant instanceof Refusal) return newPlant;

  const outcome = await service.committer.create(newPlant);
  service.metrics.create(outcome);
  switch (outcome) {
    case "stored":
    case "replayed":
      return Response.json(newPlant.plant);
    case "conflict":
      return idTaken(newPlant);
    case "queue full":
      return QUEUE_FULL;
    case "failed":
      return STORE_FAILED;
  }
}

/** Whether a plant could be stored now; load balancers ask. */
async function answerReady(service: Service): Promise<Response | Refusal> {
  if (service.isDraining) return SHUTTING_DOWN;
  return await service.store.isReady() ? ok() : STORE_FAILED;
}

function answerMetrics(
  service: Service,
  request: Request,
): Response | Refusal {
  const unauthorized = authorize(service, request);
  if (unauthorized !== undefined) return unauthorized;
  const { committer, metrics } = service;
  const text = metrics.text({
    creates: committer.waiting,
    isStoreWell: !committer.isFailing,
  });
  return new Response(text, {
    headers: { "content-type": METRICS_CONTENT_TYPE },
  });
}

function authorize(service: Service, request: Request): Refusal | undefined {
  switch (service.tokens.check(request.headers.get("authorization"))) {
    case "accepted":
      return undefined;
    case "no token":
      return NO_TOKEN;
    case "not accepted":
      return TOKEN_NOT_ACCEPTED;
  }
}

/** Answers a fault of the program: logged whole, answered blandly. */
function answerFault(service: Service, error: unknown): Response {
  const id = service.log.fault(error);
  return refuse(
    new Refusal(ERROR.FAULT, `a fault of the service, logged as ${id}`),
  );
}

function ok(): Response {
  return Response.json({ status: "ok" });
}

function refuse(
  refusal: Refusal,
  headers: Record<string, string> | undefined = HEADERS[refusal.error],
): Response {
  return Response.json(refusal, {
    status: Math.floor(refusal.error / 100),
    ...(headers && { headers }),
  });
}

/**
 * The path of a request. Not by `new URL`: the runtime puts the Host header
 * into the URL as it came, and that can be anything.
 */
function pathOf({ url, headers }: Request): string {
  const authority = url.indexOf("//") + 2;
  const host = headers.get("host") ?? "";
  let start = authority + host.length;
  if (!url.startsWith(host, authority) || url[start] !== "/") {
    start = authority + url.slice(authority).search(/[/?#]|$/);
  }
  const end = url.slice(start).search(/[?#]|$/);
  return end === 0 ? "/" : url.slice(start, start + end);
}

/** RFC 9110, section 8.3: any case, parameters allowed. */
function isJson(contentType: string | null): boolean {
  if (contentType === "application/json") return true;
  return /^application\/json[ \t]*(;|$)/i.test(contentType ?? "");
}

function noSuchPath(path: string): Refusal {
  return new Refusal(ERROR.NO_SUCH_PATH, `there is no ${cut(path)}`);
}

function methodNotAllowed(
  methods: readonly string[],
  method: string,
): Refusal {
  return new Refusal(
    ERROR.METHOD_NOT_ALLOWED,
    `expected the method ${methods.join(" or ")}, got ${cut(method)}`,
  );
}

function contentTypeNotJson(contentType: string | null): Refusal {
  return new Refusal(
    ERROR.CONTENT_TYPE_NOT_JSON,
    `Content-Type: expected application/json, got ${
      contentType ? cut(contentType) : "nothing"
    }`,
  );
}

function idTaken({ id }: NewPlant): Refusal {
  return new Refusal(ERROR.ID_TAKEN, `id: ${id} names another plant already`);
}

/** What a message quotes of a request is no longer than this. */
const QUOTE_CHARS_MAX = 60;

function cut(text: string): string {
  return text.length <= QUOTE_CHARS_MAX
    ? text
    : `${text.slice(0, QUOTE_CHARS_MAX)}…`;
}
