/** Request lines and headers as only a socket can send them. */
import assert from "node:assert/strict";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import {
  chunked,
  type Differences,
  exchange,
  request,
} from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

function withHeaders(...headers: string[]): Uint8Array {
  return request(VALID, { headers });
}

const MANY_HEADERS = Array.from({ length: 128 }, (_, i) => `x-${i}: 1`);

/** How creates differ from an ordinary one, and are stored all the same. */
const ACCEPTED: readonly (readonly [string, Differences])[] = [
  // With the four of every request.
  ["100 headers", { headers: MANY_HEADERS.slice(0, 96) }],
  ...["/plants?/plants/", "http://a.test/plants"].map((target) =>
    [`the target ${target}`, { line: `POST ${target} HTTP/1.1` }] as const
  ),
  ...["", "[::", "é"].map(
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
  "a length and a transfer coding": request(chunked(VALID, 5), {
    headers: ["transfer-encoding: chunked", "content-length: 22"],
  }),
  "an offer to upgrade, as Java's HttpClient sends it": withHeaders(
    "connection: Upgrade, HTTP2-Settings",
    "upgrade: h2c",
    "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
  ),
  "a header of 64 KiB": withHeaders(`x: ${"y".repeat(2 ** 16)}`),
  "128 headers": withHeaders(...MANY_HEADERS),
};

const { test } = testsOfOneService();

test("a request with the path /x/../plants is refused with 40401", async (program) => {
  const line = "POST /x/../plants HTTP/1.1";
  assertRefusal(
    await exchange(program.port, request(VALID, { line })),
    { error: 40401, message: /^path not found: \/x\/\.\.\/plants: / },
  );
});

for (const [i, [name, differences]] of ACCEPTED.entries()) {
  test(`a create with ${name} is stored`, async (program) => {
    const id = 100n + BigInt(i);
    const body = `{"id":${id},"name":"Fern"}`;
    const reply = await exchange(program.port, request(body, differences));
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, '{"name":"Fern"}');
    return [[["plants", id], { name: "Fern" }]];
  });
}

for (const [name, bytes] of Object.entries(MALFORMED)) {
  test(`a request with ${name} is refused with a bare 400`, async (program) => {
    const reply = await exchange(program.port, bytes);
    assert.deepEqual([reply?.status, reply?.text], [400, ""]);
  });
}
