/** Request lines and headers as only a socket can send them. */
import assert from "node:assert/strict";
import { ObservedProgram } from "../support/observed_program.ts";
import { TOKEN } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TOKENS } from "../support/service.ts";
import {
  chunked,
  type Differences,
  request,
  toBytes,
  Wire,
} from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

const NO_TOKEN = 'Authorization: expected "Bearer" and one token';

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
  ...["OPTIONS", "TRACE", "FOO", "post"].map((method) =>
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
    NO_TOKEN,
  ],
  [
    "a token in UTF-8",
    withHeaders("authorization: Bearer tökén"),
    40101,
    NO_TOKEN,
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
  [
    "two Content-Encodings",
    withHeaders("content-encoding: identity", "content-encoding: gzip"),
    41502,
    "Content-Encoding: expected identity, got identity, gzip",
  ],
  [
    "neither a length nor a body",
    request("", { without: ["content-length"] }),
    40002,
    "expected a JSON text, got nothing",
  ],
];

/** How creates differ from an ordinary one, and are stored all the same. */
const ACCEPTED: readonly (readonly [string, Differences])[] = [
  ...["/plants?x=1", "/plants?", "/plants?/plants/", "http://a.test/plants"]
    .map((target) =>
      [`the target ${target}`, { line: `POST ${target} HTTP/1.1` }] as const
    ),
  ...["", "a b", "a/b", "[::", "a:99999", "a@b", "a#b", "a?b", "é", "%"].map(
    (host) => [`the Host "${host}"`, { headers: [`host: ${host}`] }] as const,
  ),
  ["no Host", { without: ["host"] }],
  [
    "HTTP/1.0 and no Host",
    { line: "POST /plants HTTP/1.0", without: ["host"] },
  ],
  ...TOKENS.map((token) =>
    [
      `the token ${token}`,
      { headers: [`authorization: Bearer ${token}`] },
    ] as const
  ),
  ["names of headers in capitals", {
    headers: [
      "CONTENT-TYPE: application/json",
      `AUTHORIZATION:Bearer ${TOKEN}`,
    ],
  }],
  ["white space around the value of a header", {
    headers: ["content-type: \t application/json \t "],
  }],
];

/** Requests that the runtime refuses before the program sees them. */
const MALFORMED: readonly (readonly [string, Uint8Array])[] = [
  [
    "two lengths that differ",
    withHeaders("content-length: 22", "content-length: 21"),
  ],
  ["two lengths in one header", withHeaders("content-length: 22, 22")],
  ["a negative length", withHeaders("content-length: -22")],
  ["a length with a sign", withHeaders("content-length: +22")],
  [
    "a length beyond 2^64",
    withHeaders("content-length: 99999999999999999999"),
  ],
  [
    "a transfer coding other than chunked",
    withHeaders("transfer-encoding: gzip"),
  ],
  ["a space before a colon", withHeaders("x : y")],
  ["a folded header", withHeaders("x: y\r\n z")],
  ["a target that is not a path", to("plants")],
  ["a target with a space", to("/plants /")],
  ["the target *", to("*")],
  ["CONNECT", to("/plants", "CONNECT")],
  ["text that is not HTTP", toBytes("hello\r\n\r\n")],
  [
    "the start of TLS",
    Uint8Array.of(0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3),
  ],
];

/** Requests that some versions of the runtime refuse and others accept. */
const DOUBTFUL: readonly (readonly [string, Uint8Array])[] = [
  ["two Host headers", withHeaders("host: a", "host: b")],
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
  const env = { ACCESS_TOKEN: TOKENS.join(",") };
  service = await ObservedProgram.start({ env });
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

for (const [name, bytes] of MALFORMED) {
  Deno.test(`the runtime replies to ${name} with a bare 400`, async () => {
    const before = await service.stored();
    const reply = await service.exchange(bytes);
    assert.equal(reply?.status, 400, reply?.text);
    assert.equal(reply.text, "");
    assert.deepEqual(await service.stored(), before);
  });
}

for (
  const [name, bytes] of [
    [
      "a header of 70,000 bytes",
      withHeaders(`authorization: Bearer ${"t".repeat(70_000)}`),
    ],
    ["a target of 70,000 bytes", to(`/${"a".repeat(70_000)}`)],
    [
      "1,000 headers",
      withHeaders(...Array.from({ length: 1_000 }, (_, i) => `x-${i}: 1`)),
    ],
  ] as const
) {
  Deno.test(`a request with ${name} is refused, by the runtime or by the program`, async () => {
    const before = await service.stored();
    const reply = await service.exchange(bytes);
    assert.ok([400, 401, 404, 414, 431].includes(reply?.status ?? 0));
    assert.deepEqual(await service.stored(), before);
  });
}

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

Deno.test("a path in UTF-8 is refused, and a message that quotes it is valid Unicode", async () => {
  const before = await service.stored();
  for (let start = 0; start < 4; start++) {
    const target = `/${"a".repeat(start)}${"🌱".repeat(60)}`;
    const reply = await service.exchange(to(target));
    // Before Deno 2.8 the runtime refuses it.
    if (reply?.status === 400 && reply.text === "") continue;
    assertRefusal(reply, {
      error: 40401,
      message: /^path not found: \/.*🌱…$/u,
    });
  }
  assert.deepEqual(await service.stored(), before);
});

Deno.test("a create to an absolute URL without a path is refused with 40501", async () => {
  const before = await service.stored();
  for (
    const target of [
      "http://plants.test",
      "http://plants.test/",
      "http://plants.test?x=/plants",
      "http://plants.test/?/plants",
    ]
  ) {
    assertRefusal(await service.exchange(to(target)), {
      error: 40501,
      message: "method not allowed: POST: use GET or HEAD",
      allow: "GET, HEAD",
    });
  }
  assert.deepEqual(await service.stored(), before);
});

for (
  const [path, status] of [
    ["/", 200],
    ["/openapi.json", 200],
    ["/livez", 200],
    ["/readyz", 200],
    ["/metrics", 200],
    ["/plants", 405],
    ["/ferns", 404],
  ] as const
) {
  Deno.test(`HEAD ${path} replies with the headers of ${status} and no body`, async () => {
    using wire = await Wire.connect(service.port);
    await wire.send(request("", {
      line: `HEAD ${path} HTTP/1.1`,
      headers: ["connection: close"],
      without: ["content-length", "content-type"],
    }));
    const reply = await wire.reply({ isToHead: true });
    assert.ok(reply !== undefined);
    assert.equal(reply.status, status);
    assert.ok(Number(reply.headers.get("content-length")) > 0);
    assert.equal(reply.headers.get("allow"), status === 405 ? "POST" : null);
    assert.equal(await wire.rest(), "");
  });
}
