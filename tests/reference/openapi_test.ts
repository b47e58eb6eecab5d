import assert from "node:assert/strict";
import { ERROR } from "../../src/errors.ts";
import {
  describe,
  descriptionText,
  ERROR_REPLIES,
  type Example,
  type Json,
  REFUSALS,
  type Schema,
} from "../../src/reference/openapi.ts";
import { readNewPlant } from "../../src/plant/plant.ts";
import { faults } from "../support/schema.ts";

const BASE_URL = "https://plants.test/api";
const api = describe(BASE_URL);
const operation = api.paths["/plants"].post;

function examplesOf(
  { content }: {
    content: {
      "application/json": {
        schema: Schema;
        examples: Readonly<Record<string, Example>>;
      };
    };
  },
): [Json, Schema][] {
  const { schema, examples } = content["application/json"];
  return Object.values(examples).map(({ value }) => [value, schema]);
}

Deno.test("the checker of these tests sees a value that breaks its schema", () => {
  const { NewPlant } = api.components.schemas;
  assert.deepEqual(
    faults({ id: 1, name: "Pilea", more: [] }, NewPlant, api),
    [],
  );
  assert.deepEqual(faults({ id: "1", tag: 2 }, NewPlant, api), [
    "$.name: missing",
    "$.tag: not a string",
    "$.id: not an integer",
  ]);
  assert.deepEqual(faults({ id: 2n ** 64n, name: "" }, NewPlant, api), [
    "$.id: out of range",
  ]);
});

Deno.test("descriptionText() is the same to the byte every time, and JSON", () => {
  const text = descriptionText(BASE_URL);
  assert.equal(descriptionText(BASE_URL), text);
  assert.equal(JSON.parse(text).openapi, "3.1.0");
  assert.match(text, /^\{\n {2}"openapi": "3\.1\.0",\n {2}"info": \{\n/);
  assert.ok(text.endsWith("\n}\n"));
});

Deno.test("descriptionText() holds the bounds of an id to the last digit", () => {
  const text = descriptionText(BASE_URL);
  assert.match(text, /"minimum": -9223372036854775808,\n/);
  assert.match(text, /"maximum": 9223372036854775807\n/);
  assert.match(text, /"id": 9007199254740993,\n/);
});

Deno.test("the description names the base URL without a slash at its end", () => {
  assert.deepEqual(describe("http://127.0.0.1:8000").servers, [
    { url: "http://127.0.0.1:8000" },
  ]);
  assert.deepEqual(describe("https://plants.test/api/").servers, [
    { url: "https://plants.test/api" },
  ]);
});

Deno.test("the description has the title, version, license and texts of the specification", () => {
  assert.equal(api.info.title, "OpenAPI Plant Store");
  assert.equal(api.info.version, "1.0.0");
  assert.equal(api.info.license.identifier, "MIT");
  assert.equal(operation.description, "Creates a new plant in the store");
  assert.equal(operation.responses[200]?.description, "plant response");
  assert.equal(operation.responses[400]?.description, "unexpected error");
  assert.deepEqual(api.security, [{ bearerAuth: [] }]);
  assert.equal(api.components.securitySchemes.bearerAuth.scheme, "bearer");
  assert.deepEqual(api.components.schemas.Plant, {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", description: "The name of the plant" },
      tag: { type: "string", description: "Tag to specify the type" },
    },
  });
  const [plant, { properties, required } = {}] =
    api.components.schemas.NewPlant.allOf ?? [];
  assert.deepEqual(plant, { $ref: "#/components/schemas/Plant" });
  assert.deepEqual(required, ["id"]);
  assert.equal(properties?.id?.format, "int64");
  assert.equal(
    properties?.id?.description,
    "Identification number of the plant",
  );
});

Deno.test("every error number is documented once, under the status of its first three digits", () => {
  const documented = REFUSALS.flatMap(({ status, errors }) =>
    errors.map(({ error }) => [Math.trunc(error / 100) === status, error])
  );
  assert.deepEqual(
    documented,
    Object.values(ERROR).map((error) => [true, error]),
  );
});

Deno.test("the operation documents every error that can answer it, and the text the two others", () => {
  const examples = Object.entries(operation.responses)
    .filter(([status]) => status !== "200")
    .flatMap(([status, response]) =>
      Object.values(response.content["application/json"].examples)
        .map(({ value }) => [status, value])
    );
  const errors = examples.map(([status, value]) => {
    assert.ok(typeof value === "object" && value !== null && "error" in value);
    assert.equal(String(value.error).slice(0, 3), status);
    return value.error;
  });
  const beside: number[] = [ERROR.NO_SUCH_PATH, ERROR.METHOD_NOT_ALLOWED];
  assert.deepEqual(
    errors,
    Object.values(ERROR).filter((error) => !beside.includes(error)),
  );
  for (const error of beside) {
    assert.ok(api.info.description.includes(String(error)));
  }
});

Deno.test("each example of the description is valid against its schema", () => {
  const bodies = [operation.requestBody, ...Object.values(operation.responses)];
  const examples = bodies.flatMap(examplesOf);
  assert.equal(examples.length, 18);
  for (const [value, schema] of examples) {
    assert.deepEqual(faults(value, schema, api), []);
  }
});

Deno.test("no example of a reply shows an id", () => {
  for (
    const [value] of Object.values(operation.responses).flatMap(examplesOf)
  ) {
    assert.ok(typeof value === "object" && value !== null && !("id" in value));
  }
});

Deno.test("every header of a reply has an example of its type", () => {
  for (const { headers = {} } of REFUSALS) {
    for (const { schema, examples = {} } of Object.values(headers)) {
      assert.ok(Object.keys(examples).length > 0);
      for (const { value } of Object.values(examples)) {
        assert.deepEqual(faults(value, schema, api), []);
      }
    }
  }
});

Deno.test("the messages about a body are those that the service writes", () => {
  for (
    const [body, documented] of [
      ['{"id":1,"name":}', ERROR_REPLIES.NOT_JSON],
      ['{"id":"1","name":"Pilea"}', ERROR_REPLIES.NOT_A_NEW_PLANT],
    ] as const
  ) {
    const refusal = readNewPlant(body);
    assert.ok("error" in refusal);
    assert.equal(refusal.error, documented.error);
    assert.equal(refusal.message, documented.message);
  }
});
