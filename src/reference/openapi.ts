/** The OpenAPI 3.0 description of the API, served at /openapi.json. */
import { API_ERRORS, type ErrorRow, statusOf } from "../api_errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  exampleMessage,
  EXAMPLES,
  INTRODUCTION,
  PLANT,
  PLANT_ID,
} from "./api.ts";

// TypeScript does not declare this part of ECMAScript yet.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** The errors of other paths and methods: no responses of the operation. */
const OUTSIDE_THE_OPERATION: readonly ErrorRow[] = [
  API_ERRORS.unknownPath,
  API_ERRORS.methodNotAllowed,
];

/** Describes a JSON body by the name of its schema, and examples by name. */
function describeBody(
  schema: string,
  examples: readonly (readonly [string | number, object])[] = [],
) {
  return {
    "application/json": {
      schema: { $ref: `#/components/schemas/${schema}` },
      ...(examples.length > 0 && { examples: Object.fromEntries(examples) }),
    },
  };
}

/** Describes the headers of a status, with examples from its errors. */
function describeHeaders(errors: readonly ErrorRow[]) {
  const names = errors.flatMap(({ headers = {} }) => Object.keys(headers));
  return Object.fromEntries(names.map((name) => {
    const isNumber = name === "Retry-After";
    const examples = errors.flatMap(({ error, headers = {} }) => {
      const text = headers[name];
      if (text === undefined) return [];
      return [[error, { value: isNumber ? Number(text) : text }]];
    });
    return [name, {
      required: examples.length === errors.length,
      schema: { type: isNumber ? "integer" : "string" },
      examples: Object.fromEntries(examples),
    }];
  }));
}

/** Describes the responses other than 200. */
function describeRefusals() {
  const statuses = Map.groupBy(
    Object.values(API_ERRORS)
      .filter((apiError) => !OUTSIDE_THE_OPERATION.includes(apiError)),
    ({ error }) => statusOf(error),
  );
  return Object.fromEntries([...statuses].map(([status, errors]) => {
    const description = errors.length === 1
      ? errors.map(({ when }) => when).join()
      : errors.map(({ error, when }) => `${error}: ${when}`).join(" ");
    const examples = errors.map((apiError) => {
      const { error, when, remedy } = apiError;
      const value = { error, message: exampleMessage(apiError) };
      return [error, { summary: when, description: remedy, value }] as const;
    });
    const headers = describeHeaders(errors);
    return [status, {
      // The specification describes this status with two words.
      description: status === 400
        ? `unexpected error, with one of these numbers. ${description}`
        : description,
      ...(Object.keys(headers).length > 0 && { headers }),
      content: describeBody("Error", examples),
    }];
  }));
}

/** Describes the operation POST /plants. */
function describeCreate() {
  const examples = Object.entries(EXAMPLES);
  const creates = examples.map(([name, { summary, id, plant }]) =>
    [name, { summary, value: { id, ...plant } }] as const
  );
  const plants = examples.map(([name, { plant }]) =>
    [name, { summary: CREATED, value: plant }] as const
  );
  return {
    operationId: "createPlant",
    tags: ["plants"],
    summary: "Create a plant",
    description: "Creates a new plant in the store",
    requestBody: {
      description: "The plant to create",
      required: true,
      content: describeBody("NewPlant", creates),
    },
    responses: {
      200: {
        description: "plant response",
        content: describeBody("Plant", plants),
      },
      ...describeRefusals(),
      default: {
        description:
          "Another reply, such as 502 or 504 of a proxy, whose body need not be an Error.",
        content: describeBody("Error"),
      },
    },
  };
}

/**
 * Returns the text of /openapi.json, byte-stable for a base URL without a
 * trailing slash.
 */
export function descriptionText(baseUrl: string): string {
  const api = {
    openapi: "3.0.3",
    info: {
      title: API_TITLE,
      version: API_VERSION,
      // One paragraph: generators copy it into the header of each file.
      description:
        `${INTRODUCTION} The [API reference](${baseUrl}/) has every error, limit and special case, and samples.`,
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
        // No enum of the numbers: a later one must not break a client.
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
