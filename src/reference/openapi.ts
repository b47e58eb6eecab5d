/** The OpenAPI 3.0 description of the API, served at /openapi.json. */
import {
  API_ERRORS,
  type ErrorRow,
  exampleMessage,
  statusOf,
} from "../api_errors.ts";
import { ID_MAX, ID_MIN } from "../limits.ts";

// TypeScript does not declare this part of ECMAScript yet.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** The version of the API, not of the program. */
export const API_VERSION = "1.0.0";

/** What the service does. */
export const LEAD =
  "Stores plants under ids that the clients choose. A plant is on disk before the reply, ids are exact to the last digit, and repeating a create is always safe.";

/** How to authenticate. */
export const AUTHENTICATION =
  "Send an access token from the operator of the service in the header `Authorization: Bearer <ACCESS_TOKEN>`. The service checks the token before the content type and the body of a create.";

/** The schema of a member. */
interface MemberSchema {
  readonly type: string;
  readonly description: string;
  readonly format?: string;
  readonly minimum?: bigint;
  readonly maximum?: bigint;
}

/** The schema of an object. */
export interface ObjectSchema {
  readonly type: "object";
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, MemberSchema>>;
}

export const PLANT: ObjectSchema = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", description: "The name of the plant" },
    tag: { type: "string", description: "Tag to specify the type" },
  },
};

/** What a NewPlant has besides the members of a Plant. */
export const PLANT_ID: ObjectSchema = {
  type: "object",
  required: ["id"],
  properties: {
    id: {
      type: "integer",
      format: "int64",
      description:
        "Identification number of the plant. JavaScript rounds ids beyond ±(2^53 - 1), and the plant is created under the rounded id",
      minimum: ID_MIN,
      maximum: ID_MAX,
    },
  },
};

const ERROR: ObjectSchema = {
  type: "object",
  required: ["error", "message"],
  properties: {
    // No enum: a later number must not break a client.
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

const { unknownPath, methodNotAllowed, notReady } = API_ERRORS;

/** The errors of other paths and methods, which are not described. */
const OTHER_ERRORS: readonly ErrorRow[] = [
  unknownPath,
  methodNotAllowed,
  notReady,
];

/** The plants of the examples. */
const TAGGED = { name: "Monstera", tag: "climber" };
const UNTAGGED = { name: "Ficus lyrata" };

/** The meaning of a 200. */
export const CREATED =
  "The plant is on disk, stored by this request or by an earlier one.";

function describeCreate() {
  return {
    operationId: "createPlant",
    tags: ["plants"],
    summary: "Create a plant",
    description: "Creates a new plant in the store",
    requestBody: {
      description: "The plant to create",
      required: true,
      content: bodyOf("NewPlant", {
        tagged: {
          summary: "A plant with a tag",
          value: { id: 1, ...TAGGED },
        },
        untagged: {
          summary:
            "A plant without a tag, and an id that a double cannot represent",
          value: { id: 2n ** 53n + 1n, ...UNTAGGED },
        },
      }),
    },
    responses: {
      200: {
        description: "plant response",
        content: bodyOf("Plant", {
          tagged: { summary: CREATED, value: TAGGED },
          untagged: { summary: CREATED, value: UNTAGGED },
        }),
      },
      ...describeRefusals(),
      default: {
        description:
          "Another reply, such as 502 or 504 of a proxy, whose body need not be an Error.",
        content: bodyOf("Error"),
      },
    },
  };
}

/** Describes a JSON body by the name of its schema, and examples by name. */
function bodyOf(schema: string, examples?: Readonly<Record<string, object>>) {
  return {
    "application/json": {
      schema: { $ref: `#/components/schemas/${schema}` },
      examples,
    },
  };
}

/** Describes every reply to POST /plants but 200, by its status. */
function describeRefusals() {
  const errors = Object.values(API_ERRORS)
    .filter((row) => !OTHER_ERRORS.includes(row));
  const statuses = Map.groupBy(errors, ({ error }) => statusOf(error));
  return Object.fromEntries(
    statuses.entries().map(([status, rows]) => {
      const cases = rows.map(({ error, when }) =>
        rows.length === 1 ? when : `${error}: ${when}`
      ).join(" ");
      const examples = rows.map((row) => [row.error, {
        summary: row.when,
        description: row.remedy,
        value: { error: row.error, message: exampleMessage(row) },
      }]);
      return [status, {
        // The specification of the API calls this status "unexpected error".
        description: status === 400
          ? `unexpected error, with one of these numbers. ${cases}`
          : cases,
        headers: describeHeaders(rows),
        content: bodyOf("Error", Object.fromEntries(examples)),
      }];
    }),
  );
}

/** Describes the headers of a status, which not each of its errors may have. */
function describeHeaders(rows: readonly ErrorRow[]) {
  const names = rows.flatMap(({ headers = {} }) => Object.keys(headers));
  return Object.fromEntries(names.map((name) => {
    const type = name === "Retry-After" ? "integer" : "string";
    const required = rows.every(({ headers = {} }) => name in headers);
    return [name, { required, schema: { type } }];
  }));
}

/** Returns the text for a base URL without a trailing slash; it is byte-stable. */
export function descriptionText(baseUrl: string): string {
  const api = {
    openapi: "3.0.3",
    info: {
      title: "OpenAPI Plant Store",
      version: API_VERSION,
      // One paragraph: generators copy it into the header of each file.
      description:
        `${LEAD} The [API reference](${baseUrl}/) has every error, limit and special case, and samples.`,
      license: { name: "MIT", url: "https://spdx.org/licenses/MIT.html" },
    },
    servers: [{ url: baseUrl }],
    tags: [{ name: "plants", description: "The plants in the store" }],
    security: [{ bearerAuth: [] }],
    paths: { "/plants": { post: describeCreate() } },
    components: {
      schemas: {
        Plant: PLANT,
        NewPlant: {
          allOf: [{ $ref: "#/components/schemas/Plant" }, PLANT_ID],
        },
        Error: ERROR,
      },
      securitySchemes: {
        bearerAuth: {
          type: "http",
          scheme: "bearer",
          description: AUTHENTICATION,
        },
      },
    },
  };
  const text = JSON.stringify(
    api,
    (_name, value: unknown) =>
      typeof value === "bigint" ? JSON.rawJSON(String(value)) : value,
    2,
  );
  return `${text}\n`;
}
