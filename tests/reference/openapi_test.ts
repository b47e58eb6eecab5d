import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { describeApi, descriptionText } from "../../src/reference/openapi.ts";
import {
  type Description,
  type Message,
  type Schema,
  violations,
} from "../support/schema.ts";

const BASE_URL = "https://plants.test/api";
const api = describeApi(BASE_URL);
const description: Description = api;
const operation = description.paths["/plants"].post;

/** The keywords of a schema that OpenAPI 3.0 has and the description uses. */
const SCHEMA_KEYWORDS = [
  ...["$ref", "allOf", "type", "format", "description", "required"],
  ...["properties", "minimum", "maximum"],
];

function examplesOf({ content }: Message): [unknown, Schema][] {
  const { schema, examples } = content["application/json"];
  return Object.values(examples).map(({ value }) => [value, schema]);
}

/** Returns a schema and every schema inside it. */
function schemasIn(schema: Schema): Schema[] {
  const { allOf = [], properties = {} } = schema;
  const inside = [...allOf, ...Object.values(properties)];
  return [schema, ...inside.flatMap(schemasIn)];
}

Deno.test("violations() names every member that is invalid against its schema", () => {
  const { NewPlant } = api.components.schemas;
  assert.deepEqual(
    violations({ id: 1, name: "Pilea", more: [] }, NewPlant, api),
    [],
  );
  assert.deepEqual(violations({ id: "1", tag: 2 }, NewPlant, api), [
    "$.name: missing",
    "$.tag: not a string",
    "$.id: not an integer",
  ]);
  for (
    const [id, expected] of [
      [2n ** 63n - 1n, []],
      [2n ** 63n, ["$.id: out of range"]],
    ]
  ) {
    assert.deepEqual(violations({ id, name: "" }, NewPlant, api), expected);
  }
});

Deno.test("descriptionText() returns the same JSON, byte for byte, every time", () => {
  const text = descriptionText(BASE_URL);
  assert.equal(descriptionText(BASE_URL), text);
  assert.match(text, /^\{\n {2}"openapi": "3\.0\.3",\n {2}"info": \{\n/);
  assert.ok(text.endsWith("\n}\n"));
  assert.equal(JSON.parse(text).openapi, "3.0.3");
});

Deno.test("descriptionText() writes the bounds of an id to the last digit", () => {
  const text = descriptionText(BASE_URL);
  assert.match(text, /"minimum": -9223372036854775808,\n/);
  assert.match(text, /"maximum": 9223372036854775807\n/);
  assert.match(text, /"id": 9007199254740993,\n/);
});

Deno.test("describeApi() names the base URL as the server", () => {
  assert.deepEqual(api.servers, [{ url: BASE_URL }]);
});

Deno.test("describeApi() has the title, version, license and texts of the specification", () => {
  assert.equal(api.info.title, "OpenAPI Plant Store");
  assert.equal(api.info.version, "1.0.0");
  assert.equal(api.info.license.name, "MIT");
  const { post } = api.paths["/plants"];
  assert.equal(post.description, "Creates a new plant in the store");
  assert.equal(operation.responses[200]?.description, "plant response");
  assert.equal(operation.responses[400]?.description, "unexpected error");
  assert.deepEqual(api.security, [{ bearerAuth: [] }]);
  const { type, scheme } = api.components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

Deno.test("describeApi() has the schemas of the specification", () => {
  const { Plant, NewPlant, Error } = api.components.schemas;
  assert.deepEqual(Plant, {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", description: "The name of the plant" },
      tag: { type: "string", description: "Tag to specify the type" },
    },
  });
  assert.deepEqual(NewPlant, {
    allOf: [{ $ref: "#/components/schemas/Plant" }, {
      type: "object",
      required: ["id"],
      properties: {
        id: {
          type: "integer",
          format: "int64",
          description: "Identification number of the plant",
          minimum: -(2n ** 63n),
          maximum: 2n ** 63n - 1n,
        },
      },
    }],
  });
  assert.deepEqual(Error.required, ["error", "message"]);
  assert.equal(Error.properties.error?.type, "integer");
  assert.equal(Error.properties.error?.format, "int32");
  assert.equal(Error.properties.message?.type, "string");
});

Deno.test("describeApi() groups the operation under the tag plants", () => {
  assert.deepEqual(api.tags.map(({ name }) => name), ["plants"]);
  assert.deepEqual(api.paths["/plants"].post.tags, ["plants"]);
});

Deno.test("describeApi() uses nothing that OpenAPI 3.0 does not have", () => {
  assert.deepEqual(Object.keys(api), [
    ...["openapi", "info", "servers", "tags", "security", "paths"],
    "components",
  ]);
  assert.ok(!("summary" in api.info));
  assert.ok(!("identifier" in api.info.license));
  assert.deepEqual(Object.keys(api.components), ["schemas", "securitySchemes"]);
  const headers = Object.values(operation.responses)
    .flatMap(({ headers = {} }) => Object.values(headers));
  const schemas = [
    ...Object.values(api.components.schemas),
    ...headers.map(({ schema }) => schema),
  ].flatMap(schemasIn);
  for (const schema of schemas) {
    for (const keyword of Object.keys(schema)) {
      assert.ok(SCHEMA_KEYWORDS.includes(keyword), keyword);
    }
    assert.ok(!Array.isArray(schema.type), `types ${schema.type}`);
    // OpenAPI 3.0 ignores everything beside a $ref.
    if ("$ref" in schema) assert.equal(Object.keys(schema).length, 1);
  }
});

Deno.test("describeApi() documents every error, those of other paths and methods in the text", () => {
  const { unknownPath, methodNotAllowed, ...others } = API_ERRORS;
  const documented = Object.entries(operation.responses)
    .filter(([status]) => status !== "200")
    .flatMap(([status, { content }]) =>
      Object.entries(content["application/json"].examples).map(
        ([name, { value }]) => {
          assert.ok(typeof value === "object" && value !== null);
          assert.ok("error" in value);
          assert.equal(name, String(value.error));
          assert.equal(name.slice(0, 3), status);
          return value.error;
        },
      )
    );
  assert.deepEqual(documented, Object.values(others).map(({ error }) => error));
  for (const { error, when, remedy } of [unknownPath, methodNotAllowed]) {
    const status = String(error).slice(0, 3);
    const line = `- Status ${status}, error ${error}: ${when} ${remedy}\n`;
    assert.ok(api.info.description.includes(line), line);
  }
});

Deno.test("describeApi() gives every body examples that are valid against its schema", () => {
  for (
    const message of [
      operation.requestBody,
      ...Object.values(operation.responses),
    ]
  ) {
    const examples = examplesOf(message);
    assert.ok(examples.length > 0);
    for (const [value, schema] of examples) {
      assert.deepEqual(violations(value, schema, api), []);
    }
  }
});

Deno.test("describeApi() shows no id in the example of a reply", () => {
  const replies = Object.values(operation.responses).flatMap(examplesOf);
  for (const [value] of replies) {
    assert.ok(typeof value === "object" && value !== null && !("id" in value));
  }
});

Deno.test("describeApi() gives every header a description and examples of its type", () => {
  const headers = Object.values(operation.responses)
    .flatMap(({ headers = {} }) => Object.entries(headers));
  assert.deepEqual(headers.map(([name]) => name), [
    ...["WWW-Authenticate", "Connection", "Accept-Encoding", "Retry-After"],
  ]);
  for (const [name, { description, schema, examples }] of headers) {
    assert.notEqual(description, "", name);
    assert.ok(Object.keys(examples).length > 0, name);
    for (const { value } of Object.values(examples)) {
      assert.deepEqual(violations(value, schema, api), [], name);
    }
  }
});
