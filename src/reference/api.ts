/**
 * The API as data: the OpenAPI description, the page and the samples derive
 * from it.
 */
import {
  API_ERRORS,
  type ErrorRow,
  RETRYABLE_STATUSES,
} from "../api_errors.ts";
import {
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
  CREATES_RUNNING_MAX,
  ID_MAX,
  ID_MIN,
  JSON_DEPTH_MAX,
} from "../limits.ts";

/** Title and version of the API. */
export const API_TITLE = "OpenAPI Plant Store";
export const API_VERSION = "1.0.0";

/** The schema of a JSON object. */
export interface ObjectSchema {
  readonly type: "object";
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, MemberSchema>>;
}

/** The schema of a member; bounds are bigint, to be exact for an int64. */
export interface MemberSchema {
  readonly type: "string" | "integer";
  readonly format?: "int32" | "int64";
  readonly description: string;
  readonly minimum?: bigint;
  readonly maximum?: bigint;
}

/** The members of a Plant. */
export const PLANT: ObjectSchema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", description: "The name of the plant" },
    tag: { type: "string", description: "Tag to specify the type" },
  },
};

/** The members that a NewPlant has besides those of a Plant. */
export const PLANT_ID: ObjectSchema = {
  type: "object",
  required: ["id"],
  properties: {
    id: {
      type: "integer",
      format: "int64",
      description:
        "Identification number of the plant. A JavaScript number may round an id beyond ±2^53, and the plant is created under the rounded id",
      minimum: ID_MIN,
      maximum: ID_MAX,
    },
  },
};

/** The members of an Error. */
export const ERROR: ObjectSchema = {
  type: "object",
  required: ["error", "message"],
  properties: {
    error: {
      type: "integer",
      format: "int32",
      description:
        "For programs: what went wrong. The first three digits are the HTTP status; a number never changes its meaning",
    },
    message: {
      type: "string",
      description: "For people: what was expected and what was found",
    },
  },
};

/** Example creates. All samples use the first, so running several is safe. */
export const EXAMPLES = {
  tagged: {
    summary: "A plant with a tag",
    id: 1n,
    plant: { name: "Monstera", tag: "climber" },
  },
  untagged: {
    summary: "A plant without a tag, and an id that a double cannot represent",
    id: 2n ** 53n + 1n,
    plant: { name: "Ficus lyrata" },
  },
};

/** Returns the message of an error with the detail of its example. */
export function exampleMessage({ message, example = "" }: ErrorRow): string {
  return message(example);
}

const { bodyTimedOut, bodyTooLarge, notANewPlant, notJson } = API_ERRORS;
const { busy, notUtf8, storeFailed } = API_ERRORS;

/** The bounds that clients can reach, with the error when they are exceeded. */
export const LIMITS: readonly (readonly [
  subject: string,
  bound: string,
  apiError?: ErrorRow,
])[] = [
  [
    "The id",
    `an integer from ${ID_MIN} to ${ID_MAX}. Ids are compared by value: 1.0 is 1, 1e2 is 100`,
    notANewPlant,
  ],
  [
    "Known members",
    "at most once each. Unknown members are ignored, even if repeated: to find a misspelled one, compare the reply with the plant that was sent",
    notANewPlant,
  ],
  [
    "Strings of known members",
    "any text without unpaired surrogates; it may be empty",
    notANewPlant,
  ],
  [
    "Encoding of the body",
    "UTF-8; a `charset` in the content type is ignored",
    notUtf8,
  ],
  ["Byte order mark before the JSON", "not allowed", notJson],
  [
    "Nesting of arrays and objects",
    `${JSON_DEPTH_MAX} levels, including the outermost object`,
    notJson,
  ],
  [
    "Size of the body",
    `${BODY_BYTES_MAX / 1024} KiB (${
      BODY_BYTES_MAX.toLocaleString("en")
    } bytes). Check it before sending: one above ${
      BODY_DISCARD_BYTES_MAX / 2 ** 20
    } MiB may get no reply, which looks like an outage`,
    bodyTooLarge,
  ],
  ["Time for the body to arrive", `${BODY_MS_MAX / 1000} s`, bodyTimedOut],
  [
    "Time to store a plant",
    `${
      COMMIT_MS_MAX / 1000
    } s. Creates of the same id that wait together share the deadline of the first`,
    storeFailed,
  ],
  [
    "Creates running at one time",
    CREATES_RUNNING_MAX.toLocaleString("en"),
    busy,
  ],
  [
    "Headers of a request",
    "at most 64 KiB in 100 headers. The runtime may answer a request beyond this, or malformed HTTP, with a bare 400 or 431, or not at all, and a proxy with error 40000 or a body of its own",
  ],
  [
    "`Connection: Upgrade` without TLS",
    "not supported: a bare 400. `curl --http2` sends it, and so does Java's HttpClient, to ask for HTTP/2: set `version(HTTP_1_1)`",
  ],
  [
    "Connections",
    "the service does not close idle ones. A client that closes its sending side before the reply may get none, although the plant may be stored",
  ],
  [
    "Web pages",
    "those of other origins cannot call the service: no reply has CORS headers, and `OPTIONS` is answered 405",
  ],
];

/** What the service does. */
export const INTRODUCTION =
  "Stores plants under ids that the clients choose. A plant is on disk before the reply, ids are exact to the last digit, and repeating a create is always safe.";

/** The meaning of a 200. */
export const CREATED =
  "The plant is on disk, stored by this request or by an earlier one.";

/** How to authenticate. */
export const AUTHENTICATION =
  "Send an access token from the operator of the service in the header `Authorization: Bearer <ACCESS_TOKEN>`. The service checks the token before the other headers and the body of a create.";

/** How clients in JavaScript and TypeScript send ids beyond ±2^53. */
export const LARGE_IDS =
  'JavaScript numbers are exact from -2^53 to 2^53. An id beyond may be rounded before it is sent: the plant is created under the rounded id, and the 200 does not show it. Keep such an id in a bigint, and write the body as text: `{"id":${id},` and the other members, as in the TypeScript sample below; with openapi-fetch or Hey API, use the option `bodySerializer: () => text`.';

/**
 * Time that a client waits for a reply: more than the service takes for the
 * body and the commit.
 */
export const REPLY_S_MAX = 20;

/**
 * Minimum pauses before the second and every later try. A client survives an
 * outage of up to their sum.
 */
export const PAUSES_S = Array.from({ length: 4 }, (_, tries) => 2 ** tries);

const STATUSES = new Intl.ListFormat("en", { type: "disjunction" });

/** The effect of repeating a create, and how to retry one. */
export const REPEATING =
  `The same create is answered 200 again, however often. The same id with a different plant is answered 409, and the stored plant never changes. After a refused or lost connection, no reply within ${REPLY_S_MAX} s, or status ${
    STATUSES.format(RETRYABLE_STATUSES.map(String))
  }, send the same request again, up to ${PAUSES_S.length} times. Before these tries wait ${
    PAUSES_S.join(", ")
  } s (or \`Retry-After\`, if longer), plus a random time up to the same length, so that clients do not retry at the same moment. \`Retry-After\` is in seconds; the service sends no date. After the last try, keep the create and send it later: it may have been stored, and repeating it is safe.`;

/** What a client with many creates does in an outage. */
export const MANY_CREATES =
  "When one create has used its tries, and no other has succeeded since its first try, send no new ones for a minute. Then send the kept ones first, each with all of its tries again.";

/** The form of a reply other than 200. */
export const REFUSING =
  "The body of a refusal by the service is an Error. The runtime and proxies may answer in other forms (Limits).";
