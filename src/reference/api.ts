/**
 * The API as data: the OpenAPI description, the page and the samples derive
 * from it. It is the only file that describes the members of a plant.
 */
import { API_ERRORS, type ApiError, statusOf } from "../errors.ts";
import {
  BODIES_HELD_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  ID_MAX,
  ID_MIN,
  JSON_DEPTH_MAX,
  QUEUE_MS_MAX,
} from "../limits.ts";

/** Title and version of the API. */
export const API_TITLE = "OpenAPI Plant Store";
export const API_VERSION = "1.0.0";

/** The schema of a member of a JSON object. */
export interface MemberSchema {
  readonly type: "string" | "integer";
  readonly format?: "int32" | "int64";
  readonly description: string;
  /** Bounds are bigint: a number would round those of an int64. */
  readonly minimum?: bigint;
  readonly maximum?: bigint;
}

/** The schema of a JSON object. */
export interface ObjectSchema {
  readonly type: "object";
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, MemberSchema>>;
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

/** The name of the member that a NewPlant has besides those of a Plant. */
export const ID_NAME = "id";

/** The members that a NewPlant has besides those of a Plant. */
export const PLANT_ID: ObjectSchema = {
  type: "object",
  required: [ID_NAME],
  properties: {
    [ID_NAME]: {
      type: "integer",
      format: "int64",
      description: "Identification number of the plant",
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

/** The errors of every status other than 200, in ascending order. */
export const ERRORS_BY_STATUS: ReadonlyMap<number, readonly ApiError[]> = Map
  .groupBy(Object.values(API_ERRORS), ({ error }) => statusOf(error));

/** Returns the message of an error with the detail of its example. */
export function exampleMessage({ message, example = "" }: ApiError): string {
  return message(example);
}

/** A bound that clients can reach. */
export interface Limit {
  readonly subject: string;
  readonly bound: string;
  /** The error when the bound is exceeded. */
  readonly error?: number;
}

/** Returns the names of members as code, in a list for people. */
function listNames(...schemas: readonly ObjectSchema[]): string {
  const names = schemas.flatMap(({ properties }) => Object.keys(properties));
  const codes = names.map((name) => `\`${name}\``);
  return new Intl.ListFormat("en-GB").format(codes);
}

/** Every bound that clients can reach. */
export const LIMITS: readonly Limit[] = [
  {
    subject: listNames(PLANT_ID),
    bound:
      `an integer from ${ID_MIN} to ${ID_MAX}. Ids are compared by value: 1.0 is 1, 1e2 is 100. Types that generators write for TypeScript have \`number\`, which rounds ids above 2^53: write the body of such a create as the TypeScript sample in the API reference does`,
    error: API_ERRORS.notANewPlant.error,
  },
  {
    subject: listNames(PLANT_ID, PLANT),
    bound: "at most once each; unknown members are ignored",
    error: API_ERRORS.notANewPlant.error,
  },
  {
    subject: listNames(PLANT),
    bound: "any text without unpaired surrogates; it may be empty",
    error: API_ERRORS.notANewPlant.error,
  },
  {
    subject: "Nesting of arrays and objects",
    bound: `${JSON_DEPTH_MAX} levels, including the outermost object`,
    error: API_ERRORS.notJson.error,
  },
  {
    subject: "Size of the body",
    bound: `${BODY_BYTES_MAX / 1024} KiB (${
      BODY_BYTES_MAX.toLocaleString("en")
    } bytes)`,
    error: API_ERRORS.bodyTooLarge.error,
  },
  {
    subject: "Time for the body to arrive",
    bound: `${BODY_MS_MAX / 1000} s`,
    error: API_ERRORS.bodyTimedOut.error,
  },
  {
    subject: "Time to store a plant",
    bound: `${COMMIT_MS_MAX / 1000} s`,
    error: API_ERRORS.storeFailed.error,
  },
  {
    subject: "Creates waiting at one time",
    bound: `${CREATES_WAITING_MAX.toLocaleString("en")}, with ${
      BODIES_HELD_BYTES_MAX / 2 ** 20
    } MiB of bodies, the oldest for ${QUEUE_MS_MAX / 1000} s`,
    error: API_ERRORS.queueFull.error,
  },
  {
    subject: "Headers of a request",
    bound:
      "64 KiB and 100 headers, and without TLS no `Connection: Upgrade`, which Java's HttpClient sends unless its version is HTTP_1_1. Otherwise the reply can be a bare 400 or 431 without an Error body",
  },
];

/** What the service does. */
export const INTRODUCTION =
  "Stores plants under ids that the clients choose. A plant is on disk before the reply, ids are exact to the last digit, and repeating a create is always safe.";

/** The meaning of a 200. */
export const CREATED =
  "The plant is on disk, stored by this request or by an earlier one.";

/** How to authenticate. */
export const AUTHENTICATION =
  "Send an access token from the operator of the service in the header `Authorization: Bearer <ACCESS_TOKEN>`. The service checks the token before the headers and the body of a create.";

/** The statuses after which the same request can succeed. */
export const RETRY_STATUSES: readonly number[] = [
  API_ERRORS.bodyTimedOut,
  API_ERRORS.internal,
  API_ERRORS.storeFailed,
].map(({ error }) => statusOf(error));

/** The effect of repeating a create, and when to repeat one. */
export const REPEATING =
  `The same id with the same plant answers 200 again, however often. The same id with a different plant answers 409, and the stored plant never changes. After a time-out, a lost connection or status ${
    new Intl.ListFormat("en-GB", { type: "disjunction" })
      .format(RETRY_STATUSES.map(String))
  }, send the same request again: after the seconds in \`Retry-After\`, otherwise after a random pause that grows with each try. Stop after a number of tries, such as 5.`;

/** The form of a reply other than 200. */
export const REFUSING =
  "The body of every reply other than 200 is an Error, except for the bare replies under Limits.";
