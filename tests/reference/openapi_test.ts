import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { descriptionText } from "../../src/reference/openapi.ts";

/** A response, as far as the tests read it. */
interface Described {
  readonly description: string;
  readonly headers?: Readonly<
    Record<string, { required: boolean; schema: { type: string } }>
  >;
  readonly content: {
    readonly "application/json": { readonly schema: object };
  };
}

const text = descriptionText("https://plants.test/api");
const { info, tags, security, paths, components } = JSON.parse(text);
const operation = paths["/plants"].post;
const responses: Readonly<Record<string, Described>> = operation.responses;
const { 200: created, ...others } = responses;

Deno.test("descriptionText() writes integers above 2 ** 53 to the last digit", () => {
  assert.ok(text.includes(`"minimum": ${ID_MIN},\n`));
  assert.ok(text.includes(`"maximum": ${ID_MAX}\n`));
  assert.match(text, /"id": 9007199254740993,\n/);
});

Deno.test("descriptionText() has the title, the license, the descriptions and the security of the API", () => {
  const { title, version, license, description } = info;
  assert.deepEqual([title, version], ["OpenAPI Plant Store", "1.0.0"]);
  assert.equal(license.name, "MIT");
  // Generators copy it into a comment of each file.
  assert.match(description, /^.*\(https:\/\/plants\.test\/api\/\).*$/);
  assert.deepEqual(operation.tags, [tags[0].name]);
  assert.equal(operation.description, "Creates a new plant in the store");
  assert.equal(operation.requestBody.required, true);
  assert.equal(created?.description, "plant response");
  assert.match(others[400]?.description ?? "", /^unexpected error, /);
  assert.deepEqual(security, [{ bearerAuth: [] }]);
  const { type, scheme } = components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

Deno.test("descriptionText() has the members of Plant, NewPlant and Error, with their types and descriptions", () => {
  const { Plant, NewPlant, Error } = components.schemas;
  assert.deepEqual(Plant, {
    type: "object",
    required: ["name"],
    properties: {
      name: { type: "string", description: "The name of the plant" },
      tag: { type: "string", description: "Tag to specify the type" },
    },
  });
  const [plant, { type, required, properties }] = NewPlant.allOf;
  assert.deepEqual(plant, { $ref: "#/components/schemas/Plant" });
  assert.deepEqual([type, required], ["object", ["id"]]);
  const { description, ...id } = properties.id;
  assert.match(description, /^Identification number of the plant\. /);
  assert.deepEqual(id, {
    type: "integer",
    format: "int64",
    minimum: Number(ID_MIN),
    maximum: Number(ID_MAX),
  });
  assert.deepEqual(Error.required, ["error", "message"]);
  const { error, message } = Error.properties;
  assert.deepEqual([error.type, error.format], ["integer", "int32"]);
  assert.equal(message.type, "string");
});

Deno.test("descriptionText() describes every status of a create, every header, and Retry-After as an integer", () => {
  const described = Object.entries(responses).map(
    ([status, { headers = {} }]) => [
      status,
      ...Object.entries(headers).map(([name, { schema, required }]) =>
        `${name}: ${schema.type}, ${required}`
      ),
    ],
  );
  assert.deepEqual(described, [
    ["200"],
    ["400"],
    ["401", "WWW-Authenticate: string, true"],
    ["408"],
    ["409"],
    ["413"],
    ["415", "Accept-Encoding: string, false"],
    ["500"],
    ["503", "Retry-After: integer, true"],
    ["default"],
  ]);
});

Deno.test("descriptionText() names every error of a create, and none of another path or method", () => {
  const numbers = text.matchAll(/"error": (\d+)/g);
  const { unknownPath, methodNotAllowed, notReady, ...errors } = API_ERRORS;
  assert.deepEqual(
    Array.from(numbers, ([, number]) => Number(number)),
    Object.values(errors).map(({ error }) => error),
  );
  for (const { error } of [unknownPath, methodNotAllowed, notReady]) {
    assert.ok(!text.includes(`${error}`), `${error}`);
  }
});

// Some generators make one type of all errors, or fail.
Deno.test("descriptionText() gives every response but 200 one schema, also the default", () => {
  for (const [status, { content }] of Object.entries(others)) {
    const { schema } = content["application/json"];
    assert.deepEqual(schema, { $ref: "#/components/schemas/Error" }, status);
  }
});
