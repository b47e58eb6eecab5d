import assert from "node:assert/strict";
import { QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService, VALID } from "../support/service.ts";

/** A header with one value, several, or none. */
type Values = string | readonly string[];

const LONG = "a".repeat(300);
const CUT = `${"a".repeat(QUOTE_CHARS_MAX)}…`;

/** Asserts that a create is accepted with each of these values. */
async function assertAccepted(
  name: string,
  headers: readonly Values[],
): Promise<void> {
  for (const values of headers) {
    const service = new TestService();
    const reply = await service.create(VALID, { headers: { [name]: values } });
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual(service.stored(), [[["plants", 7n], { name: "Fern" }]]);
  }
}

/** Asserts that a create is refused with each of these values, as found. */
async function assertRefused(
  name: string,
  headers: readonly (readonly [values: Values, found?: string])[],
  error: number,
  expected: string,
): Promise<void> {
  for (const [values, found = [values].flat().join(", ")] of headers) {
    const service = new TestService();
    const reply = await service.create(VALID, { headers: { [name]: values } });
    assertRefusal(reply, { error, message: `${expected}, got ${found}` });
    assert.deepEqual(service.stored(), []);
  }
}

Deno.test("handle() accepts the Content-Type application/json in any case, with any parameters", async () => {
  await assertAccepted("content-type", [
    "APPLICATION/Json",
    "  application/json  ",
    "application/json;charset=utf-8",
    "application/json ;charset=latin1; x=y",
    "application/json\t;",
    'application/json; x="a, b"',
  ]);
});

Deno.test("handle() reads a body as UTF-8, whatever the charset in its Content-Type", async () => {
  const service = new TestService();
  const headers = { "content-type": "application/json; charset=iso-8859-1" };
  const body = '{"id":7,"name":"Ölbaum"}';
  assert.equal((await service.create(body, { headers })).status, 200);
  const latin1 = Uint8Array.from(body, (it) => it.charCodeAt(0));
  assertRefusal(await service.create(latin1, { headers }), { error: 40001 });
  assert.deepEqual(service.stored(), [[["plants", 7n], { name: "Ölbaum" }]]);
});

Deno.test("handle() refuses every other Content-Type with 41501", async () => {
  await assertRefused(
    "content-type",
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
    41501,
    "Content-Type: expected application/json",
  );
});

Deno.test("handle() accepts the Content-Encoding identity, and none", async () => {
  const codings = [[], "", "identity", "IDENTITY", " identity "];
  await assertAccepted("content-encoding", codings);
});

Deno.test("handle() refuses every other Content-Encoding with 41502", async () => {
  await assertRefused(
    "content-encoding",
    [
      ["GZIP"],
      ["identity2"],
      ["gzip, identity"],
      [["identity", "gzip"]],
      [LONG, CUT],
    ],
    41502,
    "Content-Encoding: expected identity",
  );
});
