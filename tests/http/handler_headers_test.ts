import assert from "node:assert/strict";
import { assertRefusal } from "../support/refusals.ts";
import { TestService, VALID } from "../support/service.ts";

/** Headers that describe a body: each has a value, several, or none. */
const HEADERS = [
  {
    name: "Content-Type",
    expected: "application/json",
    error: 41501,
    accepted: [
      "APPLICATION/Json",
      "  application/json  ",
      "application/json\t;",
      "application/json;charset=utf-8",
      'application/json; x="a, b"',
      "application/json ;charset=latin1; x=y",
    ],
    refused: [
      [],
      "",
      "application/jsonx",
      "application/json/x",
      "application/json charset=utf-8",
      "xapplication/json",
      "application/json, text/plain",
      ["application/json", "application/json"],
    ],
  },
  {
    name: "Content-Encoding",
    expected: "identity",
    error: 41502,
    accepted: [[], "", "identity", "IDENTITY", " identity "],
    refused: ["GZIP", "identity2", "gzip, identity", ["identity", "gzip"]],
  },
];

for (const { name, expected, error, accepted, refused } of HEADERS) {
  Deno.test(`handle() accepts the ${name} ${expected} in any case, and refuses every other one with ${error}`, async () => {
    const service = new TestService();
    const create = (values: string | readonly string[]) =>
      service.create(VALID, { headers: { [name.toLowerCase()]: values } });
    for (const values of refused) {
      const found = [values].flat().join(", ") || "none";
      const message = `${name}: expected ${expected}, got ${found}`;
      assertRefusal(await create(values), { error, message });
    }
    assert.deepEqual(service.stored(), []);
    for (const values of accepted) {
      const { status, text } = await create(values);
      assert.equal(status, 200, text);
    }
    assert.deepEqual(service.stored(), [[["plants", 7n], { name: "Fern" }]]);
  });
}
