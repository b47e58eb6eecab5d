/** The OpenAPI 3.0 description of the API, served at /openapi.json. */
import type { ApiError } from "../errors.ts";
import {
  API_TITLE,
  API_VERSION,
  AUTHENTICATION,
  CREATED,
  ERROR,
  ERRORS_BY_STATUS,
  exampleMessage,
  EXAMPLES,
  ID_NAME,
  INTRODUCTION,
  LIMITS,
  PLANT,
  PLANT_ID,
  REFUSING,
  REPEATING,
} from "./api.ts";

// TypeScript does not declare this part of ECMAScript yet.
declare global {
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** An example of a body, and its name. */
type Example = readonly [
  name: string | number,
  { readonly summary: string; readonly value: object },
];

/**
 * The statuses for other paths and methods. They are not responses of the
 * operation, so the text of the description explains them.
 */
const OUTSIDE_THE_OPERATION: readonly number[] = [404, 405];

/** The meaning of headers of replies. */
const HEADERS: Readonly<Record<string, string>> = {
  "WWW-Authenticate": "The scheme to use, and why a token was refused",
  "Connection": "`close`, over HTTP/1.1: the connection is not used again",
  "Accept-Encoding": "The content codings that are accepted",
  "Retry-After": "Seconds after which to send the same request again",
};

/** Returns the text of the description, in Markdown. */
function describeInWords(): string {
  const errors = OUTSIDE_THE_OPERATION.flatMap((status) =>
    (ERRORS_BY_STATUS.get(status) ?? []).map(({ error, when, remedy }) =>
      `- Status ${status}, error ${error}: ${when} ${remedy}`
    )
  );
  const limits = LIMITS.map(({ subject, bound, error }) => {
    const otherwise = error === undefined ? "" : ` (otherwise error ${error})`;
    return `- ${subject}${otherwise}: ${bound}`;
  });
  return `${INTRODUCTION}

## Repeating a create

${REPEATING}

## Errors

${REFUSING} Two errors are not responses of the operation, because the request does not reach it:

${errors.join("\n")}

## Limits

${limits.join("\n")}
`;
}

/** Describes a JSON body by the name of its schema. */
function describeBody(schema: string, examples: readonly Example[]) {
  return {
    "application/json": {
      schema: { $ref: `#/components/schemas/${schema}` },
      examples: Object.fromEntries(examples),
    },
  };
}

/** Describes the headers of a status, with examples from its errors. */
function describeHeaders(errors: readonly ApiError[]) {
  const names = new Set(
    errors.flatMap(({ headers = {} }) => Object.keys(headers)),
  );
  return Object.fromEntries([...names].map((name) => {
    const type = name === "Retry-After" ? "integer" : "string";
    const examples = errors.flatMap(({ error, headers = {} }) => {
      const text = headers[name];
      if (text === undefined) return [];
      return [[error, { value: type === "integer" ? Number(text) : text }]];
    });
    // HTTP/2 has no header Connection.
    const required = name !== "Connection" && examples.length === errors.length;
    return [name, {
      description: HEADERS[name],
      required,
      schema: { type },
      examples: Object.fromEntries(examples),
    }];
  }));
}

/** Describes the response with a status other than 200. */
function describeResponse(status: number, errors: readonly ApiError[]) {
  const headers = describeHeaders(errors);
  return {
    description: status === 400
      ? "unexpected error"
      : errors.map(({ when }) => when).join(" "),
    ...(Object.keys(headers).length > 0 && { headers }),
    content: describeBody(
      "Error",
      errors.map((apiError) => {
        const { error, when, remedy } = apiError;
        const value = { error, message: exampleMessage(apiError) };
        return [error, { summary: when, description: remedy, value }];
      }),
    ),
  };
}

/** Describes the operation POST /plants. */
function describeCreate() {
  const examples = Object.entries(EXAMPLES);
  const refusals = [...ERRORS_BY_STATUS]
    .filter(([status]) => !OUTSIDE_THE_OPERATION.includes(status))
    .map(([status, errors]) => [status, describeResponse(status, errors)]);
  return {
    operationId: "createPlant",
    tags: ["plants"],
    summary: "Create a plant",
    description: "Creates a new plant in the store",
    requestBody: {
      description: "The plant to create",
      required: true,
      content: describeBody(
        "NewPlant",
        examples.map(([name, { summary, id, plant }]) => [
          name,
          { summary, value: { [ID_NAME]: id, ...plant } },
        ]),
      ),
    },
    responses: {
      200: {
        description: "plant response",
        content: describeBody(
          "Plant",
          examples.map(([name, { plant }]) => [
            name,
            { summary: CREATED, value: plant },
          ]),
        ),
      },
      ...Object.fromEntries(refusals),
    },
  };
}

/** Describes the API at a base URL; integers may be bigint. */
function describeApi(baseUrl: string) {
  return {
    openapi: "3.0.3",
    info: {
      title: API_TITLE,
      version: API_VERSION,
      description: describeInWords(),
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
}

/**
 * Returns the text of /openapi.json, byte-stable for a base URL without a
 * trailing slash.
 */
export function descriptionText(baseUrl: string): string {
  const text = JSON.stringify(
    describeApi(baseUrl),
    (_name, value: unknown) =>
      typeof value === "bigint" ? JSON.rawJSON(String(value)) : value,
    2,
  );
  return `${text}\n`;
}
