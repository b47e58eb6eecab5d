import assert from "node:assert/strict";
import { QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService, VALID } from "../support/service.ts";

const LONG = "a".repeat(300);
const CUT = `${"a".repeat(QUOTE_CHARS_MAX)}…`;

/** A header with one value, several or none, and how its refusal names it. */
type Refused = readonly [values: string | readonly string[], found?: string];

/** The values of two headers that are accepted, and those that are not. */
const HEADERS: readonly (readonly [
  name: string,
  expected: string,
  error: number,
  accepted: readonly (string | readonly string[])[],
  refused: readonly Refused[],
])[] = [
  [
    "Content-Type",
    "application/json",
    41501,
    [
      ...["APPLICATION/Json", "  application/json  ", "application/json\t;"],
      ...["application/json;charset=utf-8", 'application/json; x="a, b"'],
      "application/json ;charset=latin1; x=y",
    ],
    [
      [[], "none"],
      ["", "none"],
      ["application/jsonx"],
      ["application/json/x"],
      ["application/json charset=utf-8"],
      ["xapplication/json"],
      ["application/json, text/plain"],
      [["application/json", "application/json"]],
      [LONG, CUT],
    ],
  ],
  [
    "Content-Encoding",
    "identity",
    41502,
    [[], "", "identity", "IDENTITY", " identity "],
    [
      ["GZIP"],
      ["identity2"],
      ["gzip, identity"],
      [["identity", "gzip"]],
      [LONG, CUT],
    ],
  ],
];

for (const [name, expected, error, accepted, refused] of HEADERS) {
  Deno.test(`handle() accepts the ${name} ${expected} in any case, and refuses every other one with ${error}`, async () => {
    const service = new TestService();
    const create = (value: string | readonly string[]) =>
      service.create(VALID, { headers: { [name.toLowerCase()]: value } });
    for (const [values, found = [values].flat().join(", ")] of refused) {
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
