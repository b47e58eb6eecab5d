/**
 * The errors of the API, in one table. The handler, the OpenAPI description,
 * the page and the metrics follow from it.
 */
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  ID_RANGE,
  WRITE_MS_MAX,
} from "./limits.ts";

/** A row of {@link API_ERRORS}. */
export interface ErrorRow {
  /**
   * For programs. The first three digits are the HTTP status; a number never
   * changes its meaning.
   */
  readonly error: number;
  /** When it occurs, in Markdown. */
  readonly when: string;
  /** How the client fixes it, in Markdown. */
  readonly remedy: string;
  /** For people: what was expected and, if it takes a detail, what was found. */
  readonly message: (detail: string) => string;
  /** An example of the detail. */
  readonly example?: string;
  /** Headers of the reply besides those of the body. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** RFC 9110, section 11.6.1; RFC 6750, section 3. */
const CHALLENGE = 'Bearer realm="plants"';

/** How long to pause is said in reference/page.html, in "Repeating a create". */
const RESEND = "Send the same request again after a pause.";

/**
 * The `Retry-After` of a service that stops. Running requests finish earlier: the
 * deadline of a create is {@link WRITE_MS_MAX}.
 */
export const STOP_RETRY_MS = 10_000;

/**
 * The `Retry-After` of a busy service: one second, the shortest that the header can
 * state. Most of the creates that are running then have their replies.
 */
const BUSY_RETRY_MS = 1_000;

/** The pause while the store fails is as long as a create may take. */
const STORE_RETRY = { "Retry-After": `${WRITE_MS_MAX / 1000}` };

/** What a client with another path or method needs to know. */
export function howToCreate(baseUrl: string): string {
  return `create plants with POST ${baseUrl}/plants; only the operator can read them`;
}

const EXAMPLE = howToCreate("https://plants.example");

const ROWS = {
  notUtf8: {
    error: 40001,
    when: "The body is not UTF-8.",
    remedy: "Encode the body as UTF-8.",
    message: () => "body: expected well-formed UTF-8",
  },
  notJson: {
    error: 40002,
    when: "The body is not JSON, is nested too deeply, or is incomplete.",
    remedy:
      "Fix the JSON at the line and column in the message, or send the whole body.",
    message: (problem) => problem,
    example: 'line 1, column 16: expected a value, found "}"',
  },
  notANewPlant: {
    error: 40003,
    when: "The JSON is not a plant: a member is missing, wrong or repeated.",
    remedy: "Fix the member that the message names.",
    message: (problem) => problem,
    example: `id: expected an integer ${ID_RANGE}, got a string`,
  },
  badHost: {
    error: 40004,
    when: "The `Host` header is not a host.",
    remedy: "Send the host and the port of the address in `Host`.",
    message: (host) => `Host: expected a host, got ${host}`,
    example: "a/b",
  },
  noToken: {
    error: 40101,
    when: "The request has no bearer token.",
    remedy: "Send the header `Authorization: Bearer <ACCESS_TOKEN>`.",
    message: (found) => `expected Authorization: Bearer <token>, got ${found}`,
    example: "nothing",
    headers: { "WWW-Authenticate": CHALLENGE },
  },
  tokenNotAccepted: {
    error: 40102,
    when: "The service does not accept the token.",
    remedy:
      "Check that the token is complete, or ask the operator for a current one.",
    message: () => "Authorization: this token is not accepted",
    headers: { "WWW-Authenticate": `${CHALLENGE}, error="invalid_token"` },
  },
  unknownPath: {
    error: 40401,
    when: "The path does not exist.",
    remedy: "Check the address: creates go to `/plants` below the base URL.",
    message: (problem) => `path not found: ${problem}`,
    example: `/plant: ${EXAMPLE}`,
  },
  methodNotAllowed: {
    error: 40501,
    when: "The path does not support this method.",
    remedy: "Use a method in the header `Allow`: `POST` for `/plants`.",
    message: (problem) => `method not allowed: ${problem}`,
    example: `GET: ${EXAMPLE}`,
  },
  bodyTimedOut: {
    error: 40801,
    when: "The body did not arrive in time. Nothing was stored.",
    remedy: "Send the same request again, on a new connection.",
    message: (seconds) => `body: expected all of it within ${seconds} s`,
    example: `${BODY_MS_MAX / 1000}`,
    // The runtime adds `Connection: close` to a reply before the end of a body.
  },
  idTaken: {
    error: 40901,
    when: "The id is already taken by a different plant.",
    remedy: "Choose another id.",
    message: (id) => `id: ${id} is already taken by a different plant`,
    example: "1",
  },
  bodyTooLarge: {
    error: 41301,
    when: `The body is larger than ${BODY_BYTES_MAX / 1024} KiB.`,
    remedy: "Send a smaller body.",
    message: () => `body: expected at most ${BODY_BYTES_MAX} bytes`,
  },
  contentTypeNotJson: {
    error: 41501,
    when: "The content type is not application/json.",
    remedy: "Send the header `Content-Type: application/json`.",
    message: (type) => `Content-Type: expected application/json, got ${type}`,
    example: "text/plain",
  },
  contentCoding: {
    error: 41502,
    when: "The body is compressed.",
    remedy: "Send the body without `Content-Encoding`.",
    message: (coding) => `Content-Encoding: expected identity, got ${coding}`,
    example: "gzip",
    // RFC 9110, section 12.5.3.
    headers: { "Accept-Encoding": "identity" },
  },
  internal: {
    error: 50001,
    when: "Internal error.",
    remedy:
      "Send the same request again. If the error persists, give the operator the id in the message, which identifies the log entry.",
    message: (id) => `internal error, logged as ${id}`,
    example: "6f1d3a52-0c5e-4b1c-9d43-2f0a7e9b8c10",
  },
  shuttingDown: {
    error: 50301,
    when: "The service is shutting down. Nothing was stored.",
    remedy: RESEND,
    message: () => "the service is shutting down: send the same request again",
    headers: { "Retry-After": `${STOP_RETRY_MS / 1000}` },
  },
  busy: {
    error: 50302,
    when: "The service is busy. Nothing was stored.",
    remedy: RESEND,
    message: () => "the service is busy: send the same request again",
    headers: { "Retry-After": `${BUSY_RETRY_MS / 1000}` },
  },
  storeFailed: {
    error: 50303,
    when: "The store failed. The plant may have been stored.",
    remedy: `${RESEND} Repeating a create is safe.`,
    message: () =>
      "the store failed or timed out, so the plant may or may not be stored: send the same request again",
    headers: STORE_RETRY,
  },
  // The reply of /readyz.
  notReady: {
    error: 50304,
    when: "The store fails: a create would not be stored now.",
    remedy: RESEND,
    // Anybody may ask, so only the log says why.
    message: () =>
      "the store fails, so a create would not be stored now: the log of the service says why",
    headers: STORE_RETRY,
  },
} satisfies Readonly<Record<string, ErrorRow>>;

/** The name of an error of the API. */
export type ErrorName = keyof typeof ROWS;

/** Every error of the API. */
export const API_ERRORS: Readonly<Record<ErrorName, ErrorRow>> = ROWS;

/** Why a request is refused; returned, never thrown. */
export class ApiError {
  readonly message: string;

  /** @param detail completes the message of most errors */
  constructor(readonly name: ErrorName, detail = "") {
    this.message = API_ERRORS[name].message(detail);
  }
}

/** Returns the HTTP status of an error number. */
export function statusOf(error: number): number {
  return Math.floor(error / 100);
}

/** Returns the message of an error with the detail of its example. */
export function exampleMessage({ message, example = "" }: ErrorRow): string {
  return message(example);
}
