/**
 * The description of the API (OpenAPI 3.1), written once as data: what
 * machines read at /openapi.json and what the page's tables are made of.
 */
import { ERROR, type ErrorNumber } from "./errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  DRAIN_MS_MAX,
  ID_MAX,
  ID_MIN,
  JSON_DEPTH_MAX,
} from "./limits.ts";

// ECMAScript's own way to write a number into JSON digit by digit; TypeScript's
// library does not know it yet.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** A JSON value in which an integer may be exact: a bigint is written as its digits. */
export type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | {
    readonly [member: string]: Json;
  };

/** The part of JSON Schema that this API needs. */
export interface Schema {
  readonly $ref?: `#/components/schemas/${string}`;
  readonly type?: "object" | "string" | "integer";
  readonly format?: "int32" | "int64";
  readonly description?: string;
  /** Bounds are bigint: JSON of a number would round those of an int64. */
  readonly minimum?: bigint;
  readonly maximum?: bigint;
  readonly allOf?: readonly Schema[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** A header that a reply carries. */
export interface Header {
  readonly description: string;
  readonly required?: boolean;
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, { readonly value: Json }>>;
}

/** One documented body, by example. */
export interface Example {
  readonly summary?: string;
  readonly description?: string;
  readonly value: Json;
}

/** A body of type application/json. */
export interface Content {
  readonly "application/json": {
    readonly schema: Schema;
    readonly examples: Readonly<Record<string, Example>>;
  };
}

/** What one status of the operation means. */
export interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header>>;
  readonly content: Content;
}

/** The OpenAPI document, as far as this API uses the format. */
export interface Description {
  readonly openapi: "3.1.0";
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly description: string;
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly { readonly bearerAuth: readonly [] }[];
  readonly paths: {
    readonly "/plants": {
      readonly post: {
        readonly operationId: string;
        readonly summary: string;
        readonly description: string;
        readonly requestBody: {
          readonly description: string;
          readonly required: true;
          readonly content: Content;
        };
        readonly responses: Readonly<Record<string, Response>>;
      };
    };
  };
  readonly components: {
    readonly schemas: Readonly<Record<"Plant" | "NewPlant" | "Error", Schema>>;
    readonly securitySchemes: {
      readonly bearerAuth: {
        readonly type: "http";
        readonly scheme: "bearer";
        readonly description: string;
      };
    };
  };
}

const SCHEMAS: Description["components"]["schemas"] = {
  Plant: {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", description: "The name of the plant" },
      tag: { type: "string", description: "Tag to specify the type" },
    },
  },
  NewPlant: {
    allOf: [
      { $ref: "#/components/schemas/Plant" },
      {
        type: "object",
        required: ["id"],
        properties: {
          id: {
            type: "integer",
            format: "int64",
            description: "Identification number of the plant",
            minimum: ID_MIN,
            maximum: ID_MAX,
          },
        },
      },
    ],
  },
  Error: {
    type: "object",
    required: ["error", "message"],
    properties: {
      // No enum: a number that a later version adds must not break a client.
      error: {
        type: "integer",
        format: "int32",
        description:
          "For programs: what went wrong. Its first three digits are the HTTP status; it never changes its meaning",
      },
      message: {
        type: "string",
        description: "For people: what was expected and what came",
      },
    },
  },
};

const SEND_AGAIN =
  "Send the same request again after the seconds that `Retry-After` gives.";

/** One `error` number: when it comes, and what a client does about it. */
export interface ErrorReply {
  readonly error: ErrorNumber;
  readonly when: string;
  readonly remedy: string;
  /** A message as the service writes it. */
  readonly message: string;
}

/** Every `error` number; the type lets none be forgotten. */
export const ERROR_REPLIES: {
  readonly [Name in keyof typeof ERROR]: ErrorReply;
} = {
  NOT_UTF8: {
    error: ERROR.NOT_UTF8,
    when: "The body is not well-formed UTF-8.",
    remedy: "Encode the body as UTF-8.",
    message: "body: expected well-formed UTF-8, got bytes that are not",
  },
  NOT_JSON: {
    error: ERROR.NOT_JSON,
    when: "The body is not one JSON text (RFC 8259).",
    remedy: "Mend the JSON at the line and column that the message names.",
    message: 'line 1, column 16: expected a value, found "}"',
  },
  NOT_A_NEW_PLANT: {
    error: ERROR.NOT_A_NEW_PLANT,
    when:
      "The JSON is not a NewPlant: not an object, or a member is missing, of the wrong type, given twice or out of range.",
    remedy: "Correct the member that the message names.",
    message:
      `id: expected an integer from ${ID_MIN} to ${ID_MAX}, got a string`,
  },
  NO_TOKEN: {
    error: ERROR.NO_TOKEN,
    when: "The request carries no bearer token.",
    remedy: "Send the header `Authorization: Bearer <ACCESS_TOKEN>`.",
    message: 'Authorization: expected "Bearer" and one token',
  },
  TOKEN_NOT_ACCEPTED: {
    error: ERROR.TOKEN_NOT_ACCEPTED,
    when: "The token is not one that the service accepts.",
    remedy:
      "Check that the token is whole, or ask the operator for a current one.",
    message: "Authorization: this token is not accepted",
  },
  NO_SUCH_PATH: {
    error: ERROR.NO_SUCH_PATH,
    when: "There is nothing at this path.",
    remedy: "Check the address: creates go to `/plants` below the base URL.",
    message: "there is no /plant",
  },
  METHOD_NOT_ALLOWED: {
    error: ERROR.METHOD_NOT_ALLOWED,
    when: "The path exists, but not with this method.",
    remedy: "Use a method that the header `Allow` names: `POST` for `/plants`.",
    message: "expected the method POST, got GET",
  },
  BODY_TIMED_OUT: {
    error: ERROR.BODY_TIMED_OUT,
    when: "The body did not arrive in time. Nothing was stored.",
    remedy: "Send the same request again, on a new connection.",
    message: `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
  },
  ID_TAKEN: {
    error: ERROR.ID_TAKEN,
    when: "The id names another plant already. That plant stays as it is.",
    remedy: "Choose another id.",
    message: "id: 1 names another plant already",
  },
  BODY_TOO_LARGE: {
    error: ERROR.BODY_TOO_LARGE,
    when: "The body is larger than the limit.",
    remedy: "Send a smaller body.",
    message: `body: expected at most ${BODY_BYTES_MAX} bytes`,
  },
  CONTENT_TYPE_NOT_JSON: {
    error: ERROR.CONTENT_TYPE_NOT_JSON,
    when: "The content type is not application/json.",
    remedy: "Send the header `Content-Type: application/json`.",
    message: "Content-Type: expected application/json, got text/plain",
  },
  FAULT: {
    error: ERROR.FAULT,
    when: "The service has a fault.",
    remedy:
      "Send the same request again. If that does not help, give the operator the id in the message: it stands in the log.",
    message:
      "a fault of the service, logged as 6f1d3a52-0c5e-4b1c-9d43-2f0a7e9b8c10",
  },
  SHUTTING_DOWN: {
    error: ERROR.SHUTTING_DOWN,
    when: "The service is shutting down.",
    remedy: SEND_AGAIN,
    message: "the service is shutting down: send the same request again",
  },
  QUEUE_FULL: {
    error: ERROR.QUEUE_FULL,
    when: "Too many creates are waiting.",
    remedy: SEND_AGAIN,
    message: "too many creates are waiting: send the same request again",
  },
  STORE_FAILED: {
    error: ERROR.STORE_FAILED,
    when:
      "The store failed, or did not take the plant in time. It may have been stored all the same.",
    remedy: `${SEND_AGAIN} Repeating a create does no harm.`,
    message:
      "the store failed or did not answer in time, so the plant may or may not be stored: send the same request again",
  },
};

/** What the statuses of refusals mean, and the headers that come with them. */
const REFUSAL_STATUSES: Readonly<
  Record<number, Pick<Response, "description" | "headers">>
> = {
  400: { description: "unexpected error" },
  401: {
    description: "no bearer token, or one that is not accepted",
    headers: {
      "WWW-Authenticate": {
        description: "The scheme to use and, for a token that was refused, why",
        required: true,
        schema: { type: "string" },
        examples: {
          [ERROR.NO_TOKEN]: { value: 'Bearer realm="plants"' },
          [ERROR.TOKEN_NOT_ACCEPTED]: {
            value: 'Bearer realm="plants", error="invalid_token"',
          },
        },
      },
    },
  },
  404: { description: "there is nothing at this path" },
  405: {
    description: "the path exists, but not with this method",
    headers: {
      Allow: {
        description: "The methods that the path has",
        required: true,
        schema: { type: "string" },
        examples: { plants: { value: "POST" } },
      },
    },
  },
  408: {
    description:
      "the body did not arrive in time; the connection is not used again",
    headers: {
      // Not required: HTTP/2 has no such header.
      Connection: {
        description: "`close`, over HTTP/1.1",
        schema: { type: "string" },
        examples: { close: { value: "close" } },
      },
    },
  },
  409: { description: "the id names another plant already" },
  413: { description: "the body is larger than the limit" },
  415: { description: "the content type is not application/json" },
  500: { description: "a fault of the service" },
  503: {
    description: "the plant cannot be stored now; the same request can later",
    headers: {
      "Retry-After": {
        description: "After how many seconds to send the same request again",
        required: true,
        schema: { type: "integer", minimum: 0n },
        examples: {
          [ERROR.SHUTTING_DOWN]: { value: DRAIN_MS_MAX / 1000 },
          [ERROR.QUEUE_FULL]: { value: 1 },
          [ERROR.STORE_FAILED]: { value: COMMIT_MS_MAX / 1000 },
        },
      },
    },
  },
};

/** A bound that a client can meet. */
export interface Limit {
  readonly of: string;
  readonly bound: string;
  /** The number that answers what goes beyond it. */
  readonly error?: ErrorNumber;
}

/** Every bound that a client can meet. */
export const LIMITS: readonly Limit[] = [
  {
    of: "`id`",
    bound:
      `an integer from ${ID_MIN} to ${ID_MAX}, kept to the last digit and counted by its value: 1.0 is 1, 1e2 is 100`,
    error: ERROR.NOT_A_NEW_PLANT,
  },
  {
    of: "`id`, `name` and `tag`",
    bound: "each given once; members with other names are allowed and dropped",
    error: ERROR.NOT_A_NEW_PLANT,
  },
  {
    of: "`name` and `tag`",
    bound: "any text, an empty one too, without unpaired surrogates",
    error: ERROR.NOT_A_NEW_PLANT,
  },
  {
    of: "Nesting of arrays and objects",
    bound: `${JSON_DEPTH_MAX} levels, the outermost object included`,
    error: ERROR.NOT_JSON,
  },
  {
    of: "Size of the body",
    bound: `${BODY_BYTES_MAX / 1024} KiB (${
      BODY_BYTES_MAX.toLocaleString("en")
    } bytes)`,
    error: ERROR.BODY_TOO_LARGE,
  },
  {
    of: "Time for the body to arrive",
    bound: `${BODY_MS_MAX / 1000} s`,
    error: ERROR.BODY_TIMED_OUT,
  },
  {
    of: "Time for the store to take a plant",
    bound: `${COMMIT_MS_MAX / 1000} s`,
    error: ERROR.STORE_FAILED,
  },
  {
    of: "Creates waiting at one time",
    bound: CREATES_WAITING_MAX.toLocaleString("en"),
    error: ERROR.QUEUE_FULL,
  },
  {
    of: "Headers of a request",
    bound:
      "64 KiB and 100 headers, without an offer to change the protocol (`Connection: Upgrade`, which Java's HttpClient sends unless its version is HTTP_1_1); else there may be a bare 400 or 431 without an Error body",
  },
];

/** The plant of all examples, so that one follows another without a 409. */
export const EXAMPLE = { id: 1n, name: "Monstera", tag: "climber" };

const SUMMARY =
  "Keeps plants, each with a name and an optional tag, under an id that the client chooses.";

const PROMISE =
  "A plant is on disk before it is answered, ids are exact to the last digit, and a create can be sent again at any time without harm.";

/** What the service does, in two sentences. */
export const INTRODUCTION = `${SUMMARY} ${PROMISE}`;

/** When a create is answered 200. */
export const CREATED =
  "The plant is on disk: stored by this request, or by the same one before.";

/** How to authenticate. */
export const AUTHENTICATION =
  "Send an access token of the service's operator in the header `Authorization: Bearer <ACCESS_TOKEN>`.";

/** What repeating a create does. */
export const REPEATING =
  "The same id with the same name and tag answers 200 again, however often. The same id with anything else answers 409, and what is stored never changes. After a time-out or a 503, send the same request again.";

/** What a reply that is not a success looks like. */
export const REFUSING =
  "Every reply that is not a success, but for the bare ones under Limits, is an Error: a number for programs, whose first three digits are the HTTP status, and a message for people.";

/** One status of a reply, and the `error` numbers that come with it. */
export interface Reply extends Pick<Response, "description" | "headers"> {
  readonly status: number;
  readonly errors: readonly ErrorReply[];
}

/** Every reply that is not a success, in the order of the statuses. */
export const REFUSALS: readonly Reply[] = Object.entries(REFUSAL_STATUSES)
  .map(([status, reply]) => ({
    ...reply,
    status: Number(status),
    errors: Object.values(ERROR_REPLIES)
      .filter(({ error }) => Math.trunc(error / 100) === Number(status)),
  }));

/**
 * 404 and 405 answer other paths and other methods, so no response of the one
 * operation can hold them: the description tells them in words.
 */
const BESIDE_THE_OPERATION: readonly number[] = [404, 405];

const INFO = `${INTRODUCTION}

## Creating again

${REPEATING}

## Errors

${REFUSING} Beside those of the operation there are two, for requests that do not reach it:

${
  REFUSALS.filter(({ status }) => BESIDE_THE_OPERATION.includes(status))
    .flatMap(({ status, errors }) =>
      errors.map(({ error, when, remedy }) =>
        `- Status ${status}, error ${error}: ${when} ${remedy}`
      )
    ).join("\n")
}

## Limits

${
  LIMITS.map(({ of, bound, error }) =>
    `- ${of}: ${bound}${error === undefined ? "" : `; else error ${error}`}`
  ).join("\n")
}
`;

/** The responses of the operation that are not a success. */
function refusedResponses(): Record<string, Response> {
  const responses: Record<string, Response> = {};
  for (const { status, errors, ...documented } of REFUSALS) {
    if (BESIDE_THE_OPERATION.includes(status)) continue;
    responses[status] = {
      ...documented,
      content: {
        "application/json": {
          schema: { $ref: "#/components/schemas/Error" },
          examples: Object.fromEntries(
            errors.map(({ error, message, when, remedy }) => [error, {
              summary: when,
              description: remedy,
              value: { error, message },
            }]),
          ),
        },
      },
    };
  }
  return responses;
}

/** The description of the API at a base URL. */
export function describe(baseUrl: string): Description {
  return {
    openapi: "3.1.0",
    info: {
      title: "OpenAPI Plant Store",
      version: "1.0.0",
      summary: SUMMARY,
      description: INFO,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: baseUrl.replace(/\/+$/, "") }],
    security: [{ bearerAuth: [] }],
    paths: {
      "/plants": {
        post: {
          operationId: "createPlant",
          summary: "Create a plant",
          description: "Creates a new plant in the store",
          requestBody: {
            description: "The plant to create",
            required: true,
            content: {
              "application/json": {
                schema: { $ref: "#/components/schemas/NewPlant" },
                examples: {
                  tagged: { summary: "A plant with a tag", value: EXAMPLE },
                  untagged: {
                    summary: "A plant without a tag",
                    value: { id: 2n, name: "Ficus lyrata" },
                  },
                  exact: {
                    summary: "An id that a JavaScript number cannot hold",
                    value: { id: 2n ** 53n + 1n, name: "Pilea" },
                  },
                },
              },
            },
          },
          responses: {
            200: {
              description: "plant response",
              content: {
                "application/json": {
                  schema: { $ref: "#/components/schemas/Plant" },
                  examples: {
                    tagged: {
                      summary: "A plant with a tag",
                      description: CREATED,
                      value: { name: EXAMPLE.name, tag: EXAMPLE.tag },
                    },
                    untagged: {
                      summary: "A plant without a tag",
                      description: CREATED,
                      value: { name: "Ficus lyrata" },
                    },
                  },
                },
              },
            },
            ...refusedResponses(),
          },
        },
      },
    },
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        bearerAuth: {
          type: "http",
          scheme: "bearer",
          description: AUTHENTICATION,
        },
      },
    },
  };
}

/** JSON text in which every bigint stands with all its digits. */
function exactJson(value: Json | Description): string {
  return JSON.stringify(
    value,
    (_name, part: unknown) =>
      typeof part === "bigint" ? JSON.rawJSON(String(part)) : part,
    2,
  ) + "\n";
}

/**
 * The text of /openapi.json. It is the same to the byte for the same base URL.
 */
export function descriptionText(baseUrl: string): string {
  return exactJson(describe(baseUrl));
}
