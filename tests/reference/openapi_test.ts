import assert from "node:assert/strict";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import type { Description } from "../support/schema.ts";

const text = descriptionText("https://plants.test/api");
const api: Description = JSON.parse(text);
const { schemas } = api.components;
const operation = api.paths["/plants"].post;
const headers = Object.values(operation.responses)
  .flatMap(({ headers = {} }) => Object.entries(headers));

Deno.test("descriptionText() writes integers above 2 ** 53 to the last digit", () => {
  assert.ok(text.includes(`"minimum": ${ID_MIN},\n`));
  assert.ok(text.includes(`"maximum": ${ID_MAX}\n`));
  assert.match(text, /"id": 9007199254740993,\n/);
});

Deno.test("descriptionText() has the title, the license, the descriptions and the security of the API", () => {
  const { title, version, license, description } = api.info;
  assert.deepEqual([title, version], ["OpenAPI Plant Store", "1.0.0"]);
  assert.equal(license.name, "MIT");
  // Generators copy it into a comment of each file.
  assert.match(description, /^.*\(https:\/\/plants\.test\/api\/\).*$/);
  assert.deepEqual(api.tags.map(({ name }) => name), operation.tags);
  assert.equal(operation.description, "Creates a new plant in the store");
  const { 200: created, 400: refused } = operation.responses;
  assert.equal(created?.description, "plant response");
  assert.match(refused?.description ?? "", /^unexpected error, /);
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

Deno.test("descriptionText() says which error of a status is meant by which sentence", () => {
  const { 200: _, default: __, ...refusals } = operation.responses;
  for (const [status, { description, content }] of Object.entries(refusals)) {
    const errors = Object.keys(content["application/json"].examples ?? {});
    const stated = description.match(/\d{5}(?=: )/g) ?? [];
    assert.deepEqual(stated, errors.length === 1 ? [] : errors, status);
  }
});

// Some generators make one type of all errors, or fail.
Deno.test("descriptionText() gives every response but 200 one schema, also the default", () => {
  const { 200: _, ...others } = operation.responses;
  assert.ok("default" in others);
  for (const [status, { content }] of Object.entries(others)) {
    const { schema } = content["application/json"];
    assert.deepEqual(schema, { $ref: "#/components/schemas/Error" }, status);
  }
});
