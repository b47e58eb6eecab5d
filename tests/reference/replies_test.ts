/** The replies of the service, compared with those of its description. */
import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { ERROR_HEADERS } from "../support/refusals.ts";
import type { Description } from "../support/schema.ts";
import { SITUATIONS, TestService } from "../support/service.ts";
import type { Reply } from "../support/wire.ts";

/** The requests that get the examples of the description, in this order. */
const REQUESTS: readonly (readonly [
  example: string,
  ...Parameters<TestService["create"]>,
])[] = [
  ["40001", new Uint8Array([0x22, 0xff, 0x22])],
  ["40002", '{"id":1,"name":}'],
  ["40003", '{"id":"1","name":"Pilea"}'],
  ["40101", "{}", { headers: { authorization: [] } }],
  ["40102", "{}", { headers: { authorization: "Bearer another" } }],
  ["40901", '{"id":1,"name":"Pilea"}'],
  ["41301", " ".repeat(BODY_BYTES_MAX + 1)],
  ["41501", "{}", { headers: { "content-type": "text/plain" } }],
  ["41502", "{}", { headers: { "content-encoding": "gzip" } }],
];

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** Returns a body with the same id of a log entry in every case. */
function withoutLogId(body: unknown): unknown {
  return JSON.parse(JSON.stringify(body).replace(UUID, "*"));
}

/** Asserts that a reply is the one that an example documents. */
function assertDocumented(
  api: Description,
  example: string,
  { status, headers, text }: Reply,
): void {
  const documented = api.paths["/plants"].post.responses[status];
  assert.ok(documented !== undefined, `status ${status} for ${example}`);
  const { examples = {} } = documented.content["application/json"];
  assert.equal(headers.get("content-type"), "application/json", example);
  const expected = withoutLogId(examples[example]?.value);
  assert.deepEqual(withoutLogId(JSON.parse(text)), expected);

  const expectedHeaders = new Map<string, string>();
  for (const [name, header] of Object.entries(documented.headers ?? {})) {
    const value = header.examples[example]?.value;
    assert.ok(value !== undefined || !header.required, `${example}: ${name}`);
    if (value === undefined) continue;
    expectedHeaders.set(name.toLowerCase(), String(value));
  }
  const sent = new Map(
    [...headers].filter(([name]) => ERROR_HEADERS.includes(name)),
  );
  assert.deepEqual(sent, expectedHeaders, example);
}

Deno.test("the service gives every reply that its description documents, as documented", async () => {
  const service = new TestService();
  const { text } = await service.get("/openapi.json");
  const api: Description = JSON.parse(text);
  // As text, because JSON.parse() rounds ids.
  const creates = Array.from(
    text.matchAll(
      /"(\w+)": \{\s+"summary": .*\s+"value": (\{\s+"id": [^}]*\})/g,
    ),
    ([, example = "", body = ""]) => [example, body] as const,
  );
  for (const [example, ...create] of [...creates, ...REQUESTS]) {
    assertDocumented(api, example, await service.create(...create));
  }
  for (const [example, provoke] of Object.entries(SITUATIONS)) {
    assertDocumented(api, example, await provoke(new TestService()));
  }

  const documented = Object.values(api.paths["/plants"].post.responses)
    .flatMap(({ content }) =>
      Object.keys(content["application/json"].examples ?? {})
    );
  const given = [...creates, ...REQUESTS].map(([example]) => example);
  assert.deepEqual(
    [...given, ...Object.keys(SITUATIONS)].toSorted(),
    documented.toSorted(),
  );
});
