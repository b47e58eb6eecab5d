import assert from "node:assert/strict";
import {
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
  CREATES_RUNNING_MAX,
  ID_MAX,
  ID_MIN,
  JSON_DEPTH_MAX,
} from "../../src/limits.ts";
import { REPEATING } from "../../src/reference/api.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import type { Description, Schema } from "../support/schema.ts";

const text = descriptionText("https://plants.test/api");
const api: Description = JSON.parse(text);
const { schemas } = api.components;
const operation = api.paths["/plants"].post;
const headers = Object.values(operation.responses)
  .flatMap(({ headers = {} }) => Object.entries(headers));

/** The keywords of a schema that OpenAPI 3.0 has and the description uses. */
const SCHEMA_KEYWORDS = [
  ...["$ref", "allOf", "type", "format", "description", "required"],
  ...["properties", "minimum", "maximum"],
];

/** Returns a schema and every schema inside it. */
function schemasIn(schema: Schema): Schema[] {
  const { allOf = [], properties = {} } = schema;
  const inside = [...allOf, ...Object.values(properties)];
  return [schema, ...inside.flatMap(schemasIn)];
}

Deno.test("descriptionText() writes integers above 2 ** 53 to the last digit", () => {
  assert.ok(text.includes(`"minimum": ${ID_MIN},\n`));
  assert.ok(text.includes(`"maximum": ${ID_MAX}\n`));
  assert.match(text, /"id": 9007199254740993,\n/);
});

Deno.test("descriptionText() has the names and texts of the specification", () => {
  const { title, version, license } = api.info;
  assert.deepEqual([title, version], ["OpenAPI Plant Store", "1.0.0"]);
  assert.equal(license.name, "MIT");
  assert.deepEqual(api.tags.map(({ name }) => name), operation.tags);
  assert.equal(operation.description, "Creates a new plant in the store");
  assert.equal(operation.responses[200]?.description, "plant response");
  assert.match(
    operation.responses[400]?.description ?? "",
    /^unexpected error\b/,
  );
  assert.deepEqual(api.security, [{ bearerAuth: [] }]);
  const { type, scheme } = api.components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

Deno.test("descriptionText() has the schemas of the specification", () => {
  assert.deepEqual(schemas.Plant, {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", description: "The name of the plant" },
      tag: { type: "string", description: "Tag to specify the type" },
    },
  });
  const description = schemas.NewPlant.allOf?.[1]?.properties?.id?.description;
  assert.match(
    description ?? "",
    /^Identification number of the plant\. A JavaScript number may round /,
  );
  assert.deepEqual(schemas.NewPlant, {
    allOf: [{ $ref: "#/components/schemas/Plant" }, {
      type: "object",
      required: ["id"],
      properties: {
        id: {
          type: "integer",
          format: "int64",
          description,
          minimum: Number(ID_MIN),
          maximum: Number(ID_MAX),
        },
      },
    }],
  });
  const { required, properties = {} } = schemas.Error;
  assert.deepEqual(required, ["error", "message"]);
  assert.equal(properties.error?.type, "integer");
  assert.equal(properties.error?.format, "int32");
  assert.equal(properties.message?.type, "string");
});

Deno.test("descriptionText() uses nothing that OpenAPI 3.0 does not have", () => {
  const names = ["openapi", "info", "servers", "tags", "security", "paths"];
  assert.deepEqual(Object.keys(api), [...names, "components"]);
  assert.ok(!("summary" in api.info));
  assert.ok(!("identifier" in api.info.license));
  assert.deepEqual(Object.keys(api.components), ["schemas", "securitySchemes"]);
  const all = [
    ...Object.values(schemas),
    ...headers.map(([, { schema }]) => schema),
  ].flatMap(schemasIn);
  for (const schema of all) {
    for (const keyword of Object.keys(schema)) {
      assert.ok(SCHEMA_KEYWORDS.includes(keyword), keyword);
    }
    assert.ok(!Array.isArray(schema.type), `types ${schema.type}`);
    // OpenAPI 3.0 ignores everything beside a $ref.
    if ("$ref" in schema) assert.equal(Object.keys(schema).length, 1);
  }
});

Deno.test("descriptionText() describes every header, and Retry-After as an integer", () => {
  assert.deepEqual(
    headers.map(([name, it]) => [name, it.schema.type, it.required]),
    [
      ["WWW-Authenticate", "string", true],
      ["Connection", "string", false],
      ["Accept-Encoding", "string", false],
      ["Retry-After", "integer", true],
    ],
  );
});

Deno.test("descriptionText() states in words what the schemas cannot: every bound, and how clients send and repeat a create", () => {
  for (
    const part of [
      `The id (otherwise error 40003): an integer from ${ID_MIN} to ${ID_MAX}`,
      "Known members (otherwise error 40003): at most once each",
      "Strings of known members (otherwise error 40003): any text without unpaired surrogates",
      `objects (otherwise error 40002): ${JSON_DEPTH_MAX} levels`,
      `body (otherwise error 41301): ${BODY_BYTES_MAX / 1024} KiB`,
      `body to arrive (otherwise error 40801): ${BODY_MS_MAX / 1000} s\n`,
      `store a plant (otherwise error 50303): ${COMMIT_MS_MAX / 1000} s. `,
      `running at one time (otherwise error 50302): ${
        CREATES_RUNNING_MAX.toLocaleString("en")
      }\n`,
      REPEATING,
      "created under the rounded id",
      "bodySerializer",
      "CORS",
    ]
  ) assert.ok(api.info.description.includes(part), part);
});

Deno.test("descriptionText() says which error of a status is meant by which sentence", () => {
  const descriptions = Object.entries(operation.responses)
    .map(([status, { description, content }]) => {
      const { examples } = content["application/json"];
      return { status, description, errors: Object.keys(examples) };
    })
    .filter(({ status }) => status !== "200");
  for (const { status, description, errors } of descriptions) {
    const stated = description.match(/\d{5}(?=: )/g) ?? [];
    assert.deepEqual(stated, errors.length === 1 ? [] : errors, status);
  }
  assert.match(
    operation.responses[503]?.description ?? "",
    /^One of: 50301: The service is shutting down\. .* 50302: The service is busy/,
  );
});
