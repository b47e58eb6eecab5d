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

/** The members of objects in OpenAPI 3.0.3, section 4.7, and of a reference. */
const API = "openapi info servers paths components security tags externalDocs";
const INFO = "title description termsOfService contact license version";
const LICENSE = "name url";
const COMPONENTS =
  "schemas responses parameters examples requestBodies headers securitySchemes links callbacks";
const SCHEMA =
  "$ref title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxProperties minProperties required enum type allOf oneOf anyOf not items properties additionalProperties description format default nullable discriminator readOnly writeOnly xml externalDocs example deprecated";

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

Deno.test("descriptionText() has the title, the license, the descriptions and the security of the API", () => {
  const { title, version, license } = api.info;
  assert.deepEqual([title, version], ["OpenAPI Plant Store", "1.0.0"]);
  assert.equal(license.name, "MIT");
  assert.deepEqual(api.tags.map(({ name }) => name), operation.tags);
  assert.equal(operation.description, "Creates a new plant in the store");
  assert.equal(operation.responses[200]?.description, "plant response");
  assert.deepEqual(api.security, [{ bearerAuth: [] }]);
  const { type, scheme } = api.components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

Deno.test("descriptionText() has the members of Plant, NewPlant and Error, with their types and descriptions", () => {
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
  const all = [
    ...Object.values(schemas),
    ...headers.map(([, { schema }]) => schema),
  ].flatMap(schemasIn);
  for (
    const [object, members] of [
      [api, API],
      [api.info, INFO],
      [api.info.license, LICENSE],
      [api.components, COMPONENTS],
      ...all.map((schema) => [schema, SCHEMA] as const),
    ] as const
  ) {
    for (const name of Object.keys(object)) {
      assert.ok(members.split(" ").includes(name), name);
    }
  }
  for (const schema of all) {
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
      "Encoding of the body (otherwise error 40001): UTF-8",
      `objects (otherwise error 40002): ${JSON_DEPTH_MAX} levels`,
      `body (otherwise error 41301): ${BODY_BYTES_MAX / 1024} KiB`,
      `body to arrive (otherwise error 40801): ${BODY_MS_MAX / 1000} s\n`,
      `store a plant (otherwise error 50303): ${COMMIT_MS_MAX / 1000} s. `,
      `running at one time (otherwise error 50302): ${
        CREATES_RUNNING_MAX.toLocaleString("en")
      }\n`,
      REPEATING,
      "created under the rounded id",
      "CORS",
    ]
  ) assert.ok(api.info.description.includes(part), part);
});

Deno.test("descriptionText() says which error of a status is meant by which sentence", () => {
  const { 200: _, default: __, ...refusals } = operation.responses;
  for (const [status, { description, content }] of Object.entries(refusals)) {
    const errors = Object.keys(content["application/json"].examples);
    const stated = description.match(/\d{5}(?=: )/g) ?? [];
    assert.deepEqual(stated, errors.length === 1 ? [] : errors, status);
  }
  const of = (status: number) => operation.responses[status]?.description ?? "";
  assert.match(of(400), /^unexpected error, with .* 40001: The body is not /);
  assert.match(
    of(503),
    /^50301: The service is shutting down\. .* 50302: The service is busy/,
  );
});

Deno.test("descriptionText() describes the reply of a proxy, without a body, as the default", () => {
  const { default: other = {} } = operation.responses;
  assert.deepEqual(Object.keys(other), ["description"]);
});
