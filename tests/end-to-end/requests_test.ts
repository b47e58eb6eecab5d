/** Request lines and headers as only a socket can send them. */
import assert from "node:assert/strict";
import { ObservedProgram } from "../support/observed_program.ts";
import { TOKEN } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import {
  chunked,
  type Differences,
  request,
  toBytes,
} from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

const NO_CREDENTIALS =
  'Authorization: expected "Bearer" and one token, got something else';

function to(target: string, method = "POST"): Uint8Array {
  return request(VALID, { line: `${method} ${target} HTTP/1.1` });
}

function withHeaders(...headers: string[]): Uint8Array {
  return request(VALID, { headers });
}

/** Requests that are refused: the error, and the message or a part of it. */
const REFUSED: readonly (readonly [
  name: string,
  bytes: Uint8Array,
  error: number,
  message: string | RegExp,
])[] = [
  ...["/x/../plants", "/%70lants", "//plants"].map((path) =>
    [`the path ${path}`, to(path), 40401, `path not found: ${path}`] as const
  ),
  [
    "an absolute URL with an unknown path",
    to("http://plants.test/ferns"),
    40401,
    "path not found: /ferns",
  ],
  [
    "a Host header that contains the path",
    request(VALID, {
      line: "POST /ferns HTTP/1.1",
      headers: ["host: plants.test/plants?"],
    }),
    40401,
    "path not found: /ferns",
  ],
  ...["TRACE", "post"].map((method) =>
    [
      `the method ${method}`,
      to("/plants", method),
      40501,
      `method not allowed: ${method}: use POST`,
    ] as const
  ),
  [
    "the credentials twice",
    withHeaders(
      `authorization: Bearer ${TOKEN}`,
      `authorization: Bearer ${TOKEN}`,
    ),
    40101,
    NO_CREDENTIALS,
  ],
  [
    "a token in UTF-8",
    withHeaders("authorization: Bearer tökén"),
    40101,
    NO_CREDENTIALS,
  ],
  [
    "two Content-Types",
    withHeaders(
      "content-type: application/json",
      "content-type: application/json",
    ),
    41501,
    "Content-Type: expected application/json, got application/json, application/json",
  ],
];

/** How creates differ from an ordinary one, and are stored all the same. */
const ACCEPTED: readonly (readonly [string, Differences])[] = [
  ...["/plants?/plants/", "http://a.test/plants"].map((target) =>
    [`the target ${target}`, { line: `POST ${target} HTTP/1.1` }] as const
  ),
  ...["", "[::", "a@b", "a?b", "é"].map(
    (host) => [`the Host "${host}"`, { headers: [`host: ${host}`] }] as const,
  ),
  [
    "HTTP/1.0 and no Host",
    { line: "POST /plants HTTP/1.0", without: ["host"] },
  ],
];

/** Requests that the runtime refuses before the program sees them. */
const MALFORMED: Readonly<Record<string, Uint8Array>> = {
  "two lengths that differ": withHeaders(
    "content-length: 22",
    "content-length: 21",
  ),
  "two lengths in one header": withHeaders("content-length: 22, 22"),
  "a negative length": withHeaders("content-length: -22"),
  "a length beyond 2^64": withHeaders("content-length: 99999999999999999999"),
  "a transfer coding other than chunked": withHeaders(
    "transfer-encoding: gzip",
  ),
  "a space before a colon": withHeaders("x : y"),
  "a target that is not a path": to("plants"),
  "text that is not HTTP": toBytes("hello\r\n\r\n"),
};

/** Requests that some versions of the runtime refuse and others accept. */
const DOUBTFUL: readonly (readonly [string, Uint8Array])[] = [
  [
    "an offer to upgrade to HTTP/2, as Java's HttpClient sends it",
    withHeaders(
      "connection: Upgrade, HTTP2-Settings",
      "upgrade: h2c",
      "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    ),
  ],
  [
    "two transfer codings",
    request(chunked(VALID, 5), {
      headers: ["transfer-encoding: chunked", "transfer-encoding: chunked"],
    }),
  ],
];

let service: ObservedProgram;

Deno.test.beforeAll(async () => {
  service = await ObservedProgram.start();
});

Deno.test.afterAll(() => service?.[Symbol.asyncDispose]());

for (const [name, bytes, error, message] of REFUSED) {
  Deno.test(`a request with ${name} is refused with ${error}`, async () => {
    const before = await service.stored();
    const reply = await service.exchange(bytes);
    assertRefusal(reply, { error, message }, ["tökén"]);
    assert.deepEqual(await service.stored(), before);
  });
}

for (const [i, [name, differences]] of ACCEPTED.entries()) {
  Deno.test(`a create with ${name} is stored`, async () => {
    const id = 100n + BigInt(i);
    const body = `{"id":${id},"name":"Fern"}`;
    const before = await service.stored();
    const reply = await service.exchange(request(body, differences));
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, '{"name":"Fern"}');
    assert.deepEqual(
      await service.stored(),
      [...before, [["plants", id], { name: "Fern" }]],
    );
  });
}

Deno.test("the runtime replies to a request that is not HTTP with a bare 400", async () => {
  const before = await service.stored();
  for (const [name, bytes] of Object.entries(MALFORMED)) {
    const reply = await service.exchange(bytes);
    assert.deepEqual([reply?.status, reply?.text], [400, ""], name);
  }
  assert.deepEqual(await service.stored(), before);
});

for (const [name, bytes] of DOUBTFUL) {
  Deno.test(`a create with ${name} is stored as it was sent, or refused with a bare 400`, async () => {
    const before = await service.stored();
    const reply = await service.exchange(bytes);
    const after = await service.stored();
    if (reply?.status === 200) {
      const plants = before.filter(([[, id]]) => id !== 2n);
      const stored = after.filter(([[, id]]) => id !== 2n);
      assert.deepEqual(stored, plants);
      const [created] = after.filter(([[, id]]) => id === 2n);
      assert.deepEqual(created, [["plants", 2n], { name: "Fern" }]);
    } else {
      assert.equal(reply?.status, 400, reply?.text);
      assert.equal(reply.text, "");
      assert.deepEqual(after, before);
    }
  });
}
