import assert from "node:assert/strict";
import { BODY_BYTES_MAX, QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService, TOKENS } from "../support/service.ts";

const VALID = '{"id":2,"name":"Fern"}';

const [TOKEN = ""] = TOKENS;

/** A header with one value, several, or none. */
type Values = string | readonly string[];

/** Sends a valid create with a header; asserts that it is stored. */
async function assertAccepted(name: string, values: Values): Promise<void> {
  const service = new TestService();
  const reply = await service.create(VALID, { headers: { [name]: values } });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.text, '{"name":"Fern"}');
  assert.deepEqual(
    service.stored(),
    [[["plants", 2n], { name: "Fern" }]],
  );
}

/** Sends a valid create with a header; asserts that it is refused. */
async function assertRefused(
  name: string,
  values: Values,
  error: number,
  message: string | RegExp,
  secrets: readonly string[] = [],
): Promise<void> {
  const service = new TestService();
  const reply = await service.create(VALID, { headers: { [name]: values } });
  assertRefusal(reply, { error, message }, secrets);
  assert.deepEqual(service.stored(), []);
}

Deno.test("handle() accepts each of its tokens, with white space around the header", async () => {
  for (const token of TOKENS) {
    await assertAccepted("authorization", `  Bearer ${token} `);
  }
});

Deno.test("handle() finds no token in a missing, another, a repeated or a non-ASCII Authorization", async () => {
  for (
    const credentials of [
      [],
      "Basic dXNlcjpzZWNyZXQ=",
      [`Bearer ${TOKEN}`, `Bearer ${TOKEN}`],
      "Bearer tökén",
    ]
  ) {
    await assertRefused(
      "authorization",
      credentials,
      40101,
      /^Authorization: /,
      ["dXNlcjpzZWNyZXQ=", "tökén"],
    );
  }
});

Deno.test("handle() does not accept another token, and does not repeat it", async () => {
  const token = "guess-of-a-token";
  await assertRefused(
    "authorization",
    `Bearer ${token}`,
    40102,
    /^Authorization: /,
    [token],
  );
});

Deno.test("handle() accepts the Content-Type application/json in any case, with any parameters", async () => {
  for (
    const type of [
      "APPLICATION/Json",
      "  application/json  ",
      "application/json;charset=utf-8",
      "application/json ;charset=latin1; x=y",
      "application/json\t;",
      'application/json; x="a, b"',
    ]
  ) await assertAccepted("content-type", type);
});

Deno.test("handle() refuses every other Content-Type with 41501", async () => {
  for (
    const [type, found = [type].flat().join(", ")] of [
      [[], "none"],
      ["", "none"],
      ["text/plain"],
      ["application/jsonx"],
      ["application/json/x"],
      ["application/json charset=utf-8"],
      ["xapplication/json"],
      ["application/json, text/plain"],
      [["application/json", "application/json"]],
      ["a".repeat(300), `${"a".repeat(QUOTE_CHARS_MAX)}…`],
    ] as const
  ) {
    const message = `Content-Type: expected application/json, got ${found}`;
    await assertRefused("content-type", type, 41501, message);
  }
});

Deno.test("handle() accepts the Content-Encoding identity, and none", async () => {
  for (const coding of [[], "", "identity", "IDENTITY", " identity "]) {
    await assertAccepted("content-encoding", coding);
  }
});

Deno.test("handle() refuses every other Content-Encoding with 41502", async () => {
  for (
    const [coding, found = [coding].flat().join(", ")] of [
      ["gzip"],
      ["GZIP"],
      ["identity2"],
      ["gzip, identity"],
      [["identity", "gzip"]],
      ["a".repeat(300), `${"a".repeat(QUOTE_CHARS_MAX)}…`],
    ] as const
  ) {
    const message = `Content-Encoding: expected identity, got ${found}`;
    await assertRefused("content-encoding", coding, 41502, message);
  }
});

Deno.test("handle() refuses a Content-Length above the limit with 41301 before any of the body has arrived", async () => {
  const service = new TestService();
  const headers = { "content-length": `${BODY_BYTES_MAX + 1}` };
  const reply = await service.create(new ReadableStream(), { headers });
  assertRefusal(reply, { error: 41301 });
  assert.deepEqual(service.stored(), []);
});
