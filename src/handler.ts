import type { AcceptedTokens } from "./auth.ts";
import type { BodyReader } from "./body.ts";
import type { Committer } from "./committer.ts";
import { ERROR, type ErrorNumber, Refusal } from "./errors.ts";
import { COMMIT_MS_MAX, DRAIN_MS_MAX } from "./limits.ts";
import type { Log } from "./log.ts";
import { type NewPlant, readNewPlant } from "./plant.ts";

/** What answering a request needs. */
export interface Service {
  readonly tokens: AcceptedTokens;
  readonly bodies: BodyReader;
  readonly committer: Committer;
  readonly log: Log;
  /** The path of the public address, without a slash at its end. */
  readonly prefix: string;
  /** Whether the service stops and takes no more creates. */
  draining: boolean;
}

/** RFC 9110, section 11.6.1; RFC 6750, section 3. */
const CHALLENGE = 'Bearer realm="plants"';

/** Headers that a refusal has beside its body (RFC 9110, section 10.2.3). */
const HEADERS: Partial<Record<ErrorNumber, Record<string, string>>> = {
  [ERROR.NO_TOKEN]: { "www-authenticate": CHALLENGE },
  [ERROR.TOKEN_NOT_ACCEPTED]: {
    "www-authenticate": `${CHALLENGE}, error="invalid_token"`,
  },
  [ERROR.BODY_TIMED_OUT]: { "connection": "close" },
  [ERROR.SHUTTING_DOWN]: { "retry-after": `${DRAIN_MS_MAX / 1000}` },
  [ERROR.QUEUE_FULL]: { "retry-after": "1" },
  [ERROR.STORE_FAILED]: { "retry-after": `${COMMIT_MS_MAX / 1000}` },
};

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

/** Answers every request of a service, in the order of its checks. */
export function makeHandler(
  service: Service,
): (request: Request) => Response | Promise<Response> {
  const plantsPath = `${service.prefix}/plants`;

  return function handle(request) {
    if (service.draining) return refuse(SHUTTING_DOWN);
    const path = pathOf(request.url);
    if (path !== plantsPath) return refuse(noSuchPath(path));
    if (request.method !== "POST") {
      return refuse(methodNotAllowed(request.method), { allow: "POST" });
    }
    return createPlant(service, request);
  };
}

async function createPlant(
  service: Service,
  request: Request,
): Promise<Response> {
  const authorization = service.tokens.check(
    request.headers.get("authorization"),
  );
  if (authorization === "no token") return refuse(NO_TOKEN);
  if (authorization === "not accepted") return refuse(TOKEN_NOT_ACCEPTED);

  const contentType = request.headers.get("content-type");
  if (!isJson(contentType)) return refuse(contentTypeNotJson(contentType));

  const body = await service.bodies.read(request);
  if (body instanceof Refusal) return refuse(body);

  const newPlant = readNewPlant(body);
  if (newPlant instanceof Refusal) return refuse(newPlant);

  switch (await service.committer.create(newPlant)) {
    case "stored":
    case "replayed":
      return Response.json(newPlant.plant);
    case "conflict":
      return refuse(idTaken(newPlant));
    case "queue full":
      return refuse(QUEUE_FULL);
    case "failed":
      return refuse(STORE_FAILED);
  }
}

/** Answers a fault of the program: logged whole, answered blandly. */
export function answerFault(service: Service, error: unknown): Response {
  const id = service.log.fault(error);
  return refuse(
    new Refusal(ERROR.FAULT, `a fault of the service, logged as ${id}`),
  );
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
 * The path of a request's URL. Not by `new URL`, which throws where a client
 * sent a strange Host.
 */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", start);
  return end === -1 ? url.slice(start) : url.slice(start, end);
}

/** RFC 9110, section 8.3: any case, parameters allowed. */
function isJson(contentType: string | null): boolean {
  if (contentType === "application/json") return true;
  return /^application\/json[ \t]*(;|$)/i.test(contentType ?? "");
}

function noSuchPath(path: string): Refusal {
  return new Refusal(ERROR.NO_SUCH_PATH, `there is no ${cut(path)}`);
}

function methodNotAllowed(method: string): Refusal {
  return new Refusal(
    ERROR.METHOD_NOT_ALLOWED,
    `expected the method POST, got ${cut(method)}`,
  );
}

function contentTypeNotJson(contentType: string | null): Refusal {
  return new Refusal(
    ERROR.CONTENT_TYPE_NOT_JSON,
    `Content-Type: expected application/json, got ${
      contentType === null ? "nothing" : cut(contentType)
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
