/** The OpenAPI 3.0 description of the API, served at /openapi.json. */
import type { ApiError } from "../errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  EXAMPLE,
  exampleMessage,
  INTRODUCTION,
  LIMITS,
  type Member,
  PLANT,
  PLANT_ID,
  REFUSALS,
  type Refusals,
  REFUSING,
  REPEATING,
} from "./api.ts";

// TypeScript does not declare this part of ECMAScript yet.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

/**
 * The statuses for other paths and methods. They are not responses of the
 * operation, so the text of the description explains them.
 */
const OUTSIDE_THE_OPERATION: readonly number[] = [404, 405];

/** The headers of replies. */
const HEADERS: Readonly<
  Record<string, { readonly description: string; readonly type: string }>
> = {
  "WWW-Authenticate": {
    description: "The scheme to use, and why a token was refused",
    type: "string",
  },
  "Connection": {
    description: "`close`, over HTTP/1.1: the connection is not used again",
    type: "string",
  },
  "Accept-Encoding": {
    description: "The content codings that are accepted",
    type: "string",
  },
  "Retry-After": {
    description: "Seconds after which to send the same request again",
    type: "integer",
  },
};

/** An example of a body. */
interface Example {
  readonly summary: string;
  readonly description?: string;
  readonly value: unknown;
}

const DESCRIPTION = `${INTRODUCTION}

## Repeating a create

${REPEATING}

## Errors

${REFUSING} Two errors are not responses of the operation, because the request does not reach it:

${
  REFUSALS.filter(({ status }) => OUTSIDE_THE_OPERATION.includes(status))
    .flatMap(({ status, errors }) =>
      errors.map(({ error, when, remedy }) =>
        `- Status ${status}, error ${error}: ${when} ${remedy}`
      )
    ).join("\n")
}

## Limits

${
  LIMITS.map(({ subject, bound, error }) =>
    `- ${subject}: ${bound}${
      error === undefined ? "" : `; otherwise error ${error}`
    }`
  ).join("\n")
}
`;

function toSchema(members: readonly Member[]) {
  const required = members.filter(({ isRequired }) => isRequired);
  return {
    type: "object",
    required: required.map(({ name }) => name),
    properties: Object.fromEntries(
      members.map(({ name, isRequired: _, ...schema }) => [name, schema]),
    ),
  };
}

/** Describes a JSON body by the name of its schema. */
function jsonContent(
  schema: string,
  examples: Readonly<Record<string, Example>>,
) {
  return {
    "application/json": {
      schema: { $ref: `#/components/schemas/${schema}` },
      examples,
    },
  };
}

/** Describes the headers of a status, with examples from its errors. */
function toHeaders(errors: readonly ApiError[]) {
  const names = new Set(
    errors.flatMap(({ headers = {} }) => Object.keys(headers)),
  );
  return Object.fromEntries([...names].map((name) => {
    const { description = "", type = "string" } = HEADERS[name] ?? {};
    const examples = errors.flatMap(({ error, headers = {} }) => {
      const text = headers[name];
      if (text === undefined) return [];
      return [[error, { value: type === "integer" ? Number(text) : text }]];
    });
    // HTTP/2 has no header Connection.
    const required = name !== "Connection" && examples.length === errors.length;
    return [name, {
      description,
      required,
      schema: { type },
      examples: Object.fromEntries(examples),
    }];
  }));
}

/** Describes a response of the operation other than 200. */
function toResponse({ status, errors }: Refusals) {
  const headers = toHeaders(errors);
  return {
    description: status === 400
      ? "unexpected error"
      : errors.map(({ when }) => when).join(" "),
    ...(Object.keys(headers).length > 0 && { headers }),
    content: jsonContent(
      "Error",
      Object.fromEntries(errors.map((apiError) => [apiError.error, {
        summary: apiError.when,
        description: apiError.remedy,
        value: { error: apiError.error, message: exampleMessage(apiError) },
      }])),
    ),
  };
}

/**
 * Describes the API at a base URL without a trailing slash. Integers may be
 * bigint.
 */
export function describeApi(baseUrl: string) {
  return {
    openapi: "3.0.3",
    info: {
      title: API_TITLE,
      version: API_VERSION,
      description: DESCRIPTION,
      license: { name: "MIT", url: "https://spdx.org/licenses/MIT.html" },
    },
    servers: [{ url: baseUrl }],
    tags: [{ name: "plants", description: "The plants in the store" }],
    security: [{ bearerAuth: [] }],
    paths: {
      "/plants": {
        post: {
          operationId: "createPlant",
          tags: ["plants"],
          summary: "Create a plant",
          description: "Creates a new plant in the store",
          requestBody: {
            description: "The plant to create",
            required: true,
            content: jsonContent("NewPlant", {
              tagged: { summary: "A plant with a tag", value: EXAMPLE },
              untagged: {
                summary: "A plant without a tag",
                value: { id: 2n, name: "Ficus lyrata" },
              },
              exact: {
                summary: "An id that a JavaScript number cannot represent",
                value: { id: 2n ** 53n + 1n, name: "Pilea" },
              },
            }),
          },
          responses: {
            200: {
              description: "plant response",
              content: jsonContent("Plant", {
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
              }),
            },
            ...Object.fromEntries(
              REFUSALS.filter(({ status }) =>
                !OUTSIDE_THE_OPERATION.includes(status)
              ).map((refusals) => [refusals.status, toResponse(refusals)]),
            ),
          },
        },
      },
    },
    components: {
      schemas: {
        Plant: toSchema(PLANT),
        NewPlant: {
          allOf: [
            { $ref: "#/components/schemas/Plant" },
            toSchema([PLANT_ID]),
          ],
        },
        // No enum of the numbers: a later one must not break a client.
        Error: toSchema(ERROR),
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
}

/** Returns the text of /openapi.json, byte-stable for a base URL. */
export function descriptionText(baseUrl: string): string {
  const text = JSON.stringify(
    describeApi(baseUrl),
    (_name, value: unknown) =>
      typeof value === "bigint" ? JSON.rawJSON(String(value)) : value,
    2,
  );
  return `${text}\n`;
}
