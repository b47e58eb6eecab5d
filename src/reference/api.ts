/** The API as data: the OpenAPI description and the page derive from it. */
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

/** A member of a JSON object. */
export interface Member {
  readonly name: string;
  readonly type: "string" | "integer";
  readonly format?: "int32" | "int64";
  readonly description: string;
  readonly isRequired: boolean;
  /** Bounds are bigint: a number would round those of an int64. */
  readonly minimum?: bigint;
  readonly maximum?: bigint;
}

/** The member that NewPlant has besides those of {@link PLANT}. */
export const PLANT_ID: Member = {
  name: "id",
  type: "integer",
  format: "int64",
  description: "Identification number of the plant",
  isRequired: true,
  minimum: ID_MIN,
  maximum: ID_MAX,
};

/** The members of a Plant. */
export const PLANT: readonly Member[] = [
  {
    name: "name",
    type: "string",
    description: "The name of the plant",
    isRequired: true,
  },
  {
    name: "tag",
    type: "string",
    description: "Tag to specify the type",
    isRequired: false,
  },
];

/** The members of an Error. */
export const ERROR: readonly Member[] = [
  {
    name: "error",
    type: "integer",
    format: "int32",
    description:
      "For programs: what went wrong. The first three digits are the HTTP status; a number never changes its meaning",
    isRequired: true,
  },
  {
    name: "message",
    type: "string",
    description: "For people: what was expected and what was found",
    isRequired: true,
  },
];

/** The plant of all examples, so that running several causes no 409. */
export const EXAMPLE = { id: 1n, name: "Monstera", tag: "climber" };

/** A status other than 200, and its errors. */
export interface Refusals {
  readonly status: number;
  readonly errors: readonly ApiError[];
}

/** Every status other than 200, in ascending order. */
export const REFUSALS: readonly Refusals[] = Array.from(
  Map.groupBy(Object.values(API_ERRORS), ({ error }) => statusOf(error)),
  ([status, errors]) => ({ status, errors }),
);

/** Returns the message of an error with the detail of its example. */
export function exampleMessage({ message, example = "" }: ApiError): string {
  return message(example);
}

/** A bound that clients can reach. */
export interface Limit {
  readonly subject: string;
  readonly bound: string;
  /** The number of the error when the bound is exceeded. */
  readonly error?: number;
}

/** Every bound that clients can reach. */
export const LIMITS: readonly Limit[] = [
  {
    subject: "`id`",
    bound:
      `an integer from ${ID_MIN} to ${ID_MAX}, exact to the last digit. Its value counts: 1.0 is 1, 1e2 is 100`,
    error: API_ERRORS.notANewPlant.error,
  },
  {
    subject: "`id`, `name` and `tag`",
    bound: "at most once each; other members are allowed and dropped",
    error: API_ERRORS.notANewPlant.error,
  },
  {
    subject: "`name` and `tag`",
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

/** A summary of the service. */
export const SUMMARY =
  "Stores plants, each with a name and an optional tag, under ids that the clients choose.";

/** What the service does, in two sentences. */
export const INTRODUCTION =
  `${SUMMARY} A plant is on disk before the reply, ids are exact to the last digit, and repeating a create is always safe.`;

/** The meaning of a 200. */
export const CREATED =
  "The plant is on disk, stored by this request or by an earlier one.";

/** How to authenticate. */
export const AUTHENTICATION =
  "Send an access token from the operator of the service in the header `Authorization: Bearer <ACCESS_TOKEN>`.";

/** The effect of repeating a create. */
export const REPEATING =
  "The same id with the same name and tag answers 200 again, however often. The same id with anything else answers 409, and the stored plant never changes. After a time-out or a 503, send the same request again.";

/** The form of a reply other than 200. */
export const REFUSING =
  "Every reply other than 200, except the bare ones under Limits, is an Error: a number for programs, whose first three digits are the HTTP status, and a message for people.";
