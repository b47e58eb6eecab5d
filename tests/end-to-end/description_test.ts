/** The replies of the service, compared with those of its description. */
import assert from "node:assert/strict";
import { API_ERRORS, statusOf } from "../../src/api_errors.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { exampleMessage } from "../../src/reference/api.ts";
import { runProgram } from "../support/program.ts";
import { assertRefusal, ERROR_HEADERS } from "../support/refusals.ts";
import {
  type Description,
  isValid,
  readDescription,
} from "../support/schema.ts";
import { SITUATIONS, TestService } from "../support/service.ts";
import { test } from "../support/tests.ts";
import { exchange, type Reply, request } from "../support/wire.ts";

/** Examples in the description, and requests with these replies. */
const REQUESTS: readonly (readonly [example: string, Uint8Array])[] = [
  ["40001", request(new Uint8Array([0x22, 0xff, 0x22]))],
  ["40002", request('{"id":1,"name":}')],
  ["40003", request('{"id":"1","name":"Pilea"}')],
  ["40101", request("{}", { without: ["authorization"] })],
  ["40102", request("{}", { headers: ["authorization: Bearer another"] })],
  ["40901", request('{"id":1,"name":"Pilea"}')],
  ["41301", request(" ".repeat(BODY_BYTES_MAX + 1))],
  ["41501", request("{}", { headers: ["content-type: text/plain"] })],
  ["41502", request("{}", { headers: ["content-encoding: gzip"] })],
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
  const { schema, examples } = documented.content["application/json"];
  assert.ok(example in examples, `${status} has no example ${example}`);

  assert.equal(headers.get("content-type"), "application/json", example);
  const body = JSON.parse(text);
  assert.ok(isValid(body, schema, api), example);
  const expected = withoutLogId(examples[example]?.value);
  assert.deepEqual(withoutLogId(body), expected);

  const expectedHeaders = new Map<string, string>();
  for (const [name, header] of Object.entries(documented.headers ?? {})) {
    const value = header.examples[example]?.value;
    assert.ok(value !== undefined || !header.required, `${example}: ${name}`);
    // Deno adds `Connection`, which no reply in this process has.
    if (value === undefined || name === "Connection") continue;
    expectedHeaders.set(name.toLowerCase(), String(value));
  }
  const sent = new Map(
    [...headers].filter(([name]) => ERROR_HEADERS.includes(name)),
  );
  assert.deepEqual(sent, expectedHeaders, example);
}

/** Returns the ids in a store, in ascending order. */
async function storedIds(file: string): Promise<string[]> {
  const { stdout } = await runProgram(["export", "--kv", file]);
  return Array.from(stdout.matchAll(/^\{"id":(-?\d+),/gm), ([, id = ""]) => id);
}

test("the service gives every reply that the description documents, as documented", async ({ store, start }) => {
  await using program = await start();
  const response = await fetch(`${program.origin}/openapi.json`);
  const text = await response.text();
  const api: Description = JSON.parse(text);
  // As text, because JSON.parse() rounds ids.
  const creates = Array.from(
    text.matchAll(
      /"(\w+)": \{\s+"summary": .*\s+"value": (\{\s+"id": [^}]*\})/g,
    ),
    ([, example = "", body = ""]) => [example, request(body)] as const,
  );
  const requests = [...creates, ...REQUESTS];
  // One after the other: a conflict needs the plant before it.
  for (const [example, bytes] of requests) {
    const reply = await exchange(program.port, bytes);
    assert.ok(reply !== undefined, `no reply for ${example}`);
    assertDocumented(api, example, reply);
  }
  assert.deepEqual(await storedIds(store), ["1", "9007199254740993"]);

  for (const [example, provoke] of Object.entries(SITUATIONS)) {
    const service = new TestService();
    const reply = await provoke(service);
    assertDocumented(api, example, reply);
  }

  const documented = Object.values(api.paths["/plants"].post.responses)
    .flatMap(({ content }) =>
      Object.keys(content["application/json"].examples)
    );
  const given = [
    ...requests.map(([example]) => example),
    ...Object.keys(SITUATIONS),
  ];
  assert.deepEqual(given.toSorted(), documented.toSorted());
});

test("the service refuses other paths and methods as the text of the description says", async ({ start }) => {
  await using program = await start();
  const { info } = await readDescription(program);
  for (
    const [line, apiError] of [
      ["POST /plant HTTP/1.1", API_ERRORS.unknownPath],
      ["GET /plants HTTP/1.1", API_ERRORS.methodNotAllowed],
    ] as const
  ) {
    const { error } = apiError;
    const message = exampleMessage(apiError);
    const reply = await exchange(program.port, request("{}", { line }));
    assertRefusal(reply, { error, message });
    const documented = `Status ${statusOf(error)}, error ${error}: `;
    assert.ok(info.description.includes(documented), documented);
  }
});

test("more headers than the description allows get a refusal without an Error body", async ({ store, start }) => {
  await using program = await start();
  const { info } = await readDescription(program);
  assert.match(
    info.description,
    /64 KiB in about 100 headers\. .* Otherwise the reply can be a bare 400 or 431/,
  );
  const headers = Array.from({ length: 128 }, (_, i) => `x-${i}: 1`);
  const create = (id: number, headers: readonly string[]) =>
    exchange(program.port, request(`{"id":${id},"name":"Fern"}`, { headers }));
  // The status depends on the version of the runtime.
  const refused = await create(5, headers);
  assert.ok(refused?.status === 400 || refused?.status === 431);
  assert.equal(refused.text, "");
  // With the four headers of every request, as many as every version accepts.
  assert.equal((await create(6, headers.slice(0, 96)))?.status, 200);
  assert.deepEqual(await storedIds(store), ["6"]);
});
