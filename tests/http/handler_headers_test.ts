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
  using service = await TestService.start();
  const reply = await service.create(VALID, { headers: { [name]: values } });
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.text, '{"name":"Fern"}');
  assert.deepEqual(
    await service.stored(),
    [[["plants", 2n], { name: "Fern" }]],
  );
}

/** Sends a valid create with a header; asserts that it is refused. */
async function assertRefused(
  name: string,
  values: Values,
  error: number,
  message: string,
  secrets: readonly string[] = [],
): Promise<void> {
  using service = await TestService.start();
  const reply = await service.create(VALID, { headers: { [name]: values } });
  assertRefusal(reply, { error, message }, secrets);
  assert.deepEqual(await service.stored(), []);
}

function quoted(values: Values): string {
  return JSON.stringify([values].flat()).slice(0, 80);
}

for (const token of TOKENS) {
  Deno.test(`handle() accepts the token ${token}`, async () => {
    await assertAccepted("authorization", `  Bearer ${token} `);
  });
}

for (
  const credentials of [
    [],
    "Basic dXNlcjpzZWNyZXQ=",
    [`Bearer ${TOKEN}`, `Bearer ${TOKEN}`],
    ["Basic dXNlcjpzZWNyZXQ=", `Bearer ${TOKEN}`],
    "Bearer tökén",
  ]
) {
  Deno.test(`handle() finds no token in the Authorization ${quoted(credentials)}`, async () => {
    await assertRefused(
      "authorization",
      credentials,
      40101,
      'Authorization: expected "Bearer" and one token',
      ["dXNlcjpzZWNyZXQ=", "tökén"],
    );
  });
}

Deno.test("handle() does not accept another token, and does not repeat it", async () => {
  const token = "guess-of-a-token";
  await assertRefused(
    "authorization",
    `Bearer ${token}`,
    40102,
    "Authorization: this token is not accepted",
    [token],
  );
});

for (
  const type of [
    "application/json",
    "APPLICATION/JSON",
    "Application/Json",
    "  application/json  ",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8; x=y",
    "application/json ;charset=latin1",
    "application/json\t;",
    'application/json; x="a, b"',
  ]
) {
  Deno.test(`handle() accepts the Content-Type ${quoted(type)}`, async () => {
    await assertAccepted("content-type", type);
  });
}

for (
  const [type, found = [type].flat().join(", ")] of [
    [[], "none"],
    ["", "none"],
    ["text/json"],
    ["text/plain"],
    ["application/jsonx"],
    ["application/json-seq"],
    ["application/json/x"],
    ["application/json charset=utf-8"],
    ["application/problem+json"],
    ["application/x-www-form-urlencoded"],
    ["xapplication/json"],
    ["json"],
    ["*/*"],
    ["application/json, text/plain"],
    [["application/json", "application/json"]],
    ["a".repeat(300), `${"a".repeat(QUOTE_CHARS_MAX)}…`],
  ] as const
) {
  Deno.test(`handle() refuses the Content-Type ${quoted(type)} with 41501`, async () => {
    await assertRefused(
      "content-type",
      type,
      41501,
      `Content-Type: expected application/json, got ${found}`,
    );
  });
}

for (
  const coding of [[], "", "identity", "IDENTITY", "Identity", " identity "]
) {
  Deno.test(`handle() accepts the Content-Encoding ${quoted(coding)}`, async () => {
    await assertAccepted("content-encoding", coding);
  });
}

for (
  const [coding, found = [coding].flat().join(", ")] of [
    ["gzip"],
    ["GZIP"],
    ["x-gzip"],
    ["br"],
    ["zstd"],
    ["deflate"],
    ["none"],
    ["identity2"],
    ["gzip, identity"],
    ["identity, gzip"],
    [["identity", "gzip"]],
    ["a".repeat(300), `${"a".repeat(QUOTE_CHARS_MAX)}…`],
  ] as const
) {
  Deno.test(`handle() refuses the Content-Encoding ${quoted(coding)} with 41502`, async () => {
    await assertRefused(
      "content-encoding",
      coding,
      41502,
      `Content-Encoding: expected identity, got ${found}`,
    );
  });
}

for (const length of [`${BODY_BYTES_MAX + 1}`, "1152921504606846976"]) {
  Deno.test(`handle() refuses the Content-Length ${length} with 41301 before any of the body has arrived`, async () => {
    using service = await TestService.start();
    const headers = { "content-length": length };
    const reply = await service.create(new ReadableStream(), { headers });
    assertRefusal(reply, {
      error: 41301,
      message: `body: expected at most ${BODY_BYTES_MAX} bytes`,
    });
    assert.deepEqual(await service.stored(), []);
  });
}
