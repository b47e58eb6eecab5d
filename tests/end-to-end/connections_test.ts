/** What a connection does between and after requests. */
import assert from "node:assert/strict";
import type { Entry } from "../support/entries.ts";
import { range } from "../support/load.ts";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import { chunked, concatenate, request, Wire } from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

const REFUSED = [
  [40401, request(VALID, { line: "POST /ferns HTTP/1.1" })],
  [40501, request(VALID, { line: "PUT /plants HTTP/1.1" })],
  [40101, request(VALID, { without: ["authorization"] })],
  [40102, request(VALID, { headers: ["authorization: Bearer guess"] })],
  [41501, request(VALID, { headers: ["content-type: text/plain"] })],
  [41502, request(VALID, { headers: ["content-encoding: gzip"] })],
  [40001, request(Uint8Array.of(0xff))],
  [40002, request("{")],
  [40002, request("", { without: ["content-length"] })],
  [
    40002,
    request(chunked("{", 1), { headers: ["transfer-encoding: chunked"] }),
  ],
  [40003, request("[]")],
  // The first plant has this id.
  [40901, request('{"id":200,"name":"Fern"}')],
] as const;

const { test } = testsOfOneService();

test("requests that are sent at once on one connection get their replies in order, refusals too", async (program) => {
  const ids = range(200n, 20);
  using wire = await Wire.connect(program.port);
  await wire.send(concatenate(
    ...ids.flatMap((id, i) => {
      const [, refused] = REFUSED[i % REFUSED.length] ?? [0, ""];
      return [request(`{"id":${id},"name":"plant ${id}"}`), refused];
    }),
  ));
  for (const [i, id] of ids.entries()) {
    assert.equal((await wire.reply())?.text, `{"name":"plant ${id}"}`);
    const [error = 0] = REFUSED[i % REFUSED.length] ?? [];
    assertRefusal(await wire.reply(), { error });
  }
  return ids.map((id): Entry => [["plants", id], { name: `plant ${id}` }]);
});

test("a connection whose body follows its refusal serves the next request, or the refusal has announced a close", async (program) => {
  for (
    const differences of [
      { line: "POST /ferns HTTP/1.1" },
      { without: ["authorization"] },
      { headers: ["content-type: text/plain"] },
    ]
  ) {
    using wire = await Wire.connect(program.port);
    const bytes = request(VALID, differences);
    await wire.send(bytes.subarray(0, -VALID.length));
    const { status, headers } = await wire.reply() ?? {};
    assert.ok(status !== undefined && status >= 400, `${status}`);
    if (headers?.get("connection") === "close") continue;
    await wire.send(concatenate(VALID, bytes));
    assert.equal((await wire.reply())?.status, status);
  }
});

test("the bytes after a body, or after its last chunk, are a separate request", async (program) => {
  using wire = await Wire.connect(program.port);
  await wire.send(concatenate(
    request('{"id":300,"name":"a"}'),
    request(chunked('{"id":301,"name":"a"}', 7), {
      headers: ["transfer-encoding: chunked"],
    }),
    // The rest of this body is not a request.
    request(`${VALID}\r\n\r\n`, { headers: ["content-length: 5"] }),
  ));
  for (let i = 0; i < 2; i++) {
    assert.equal((await wire.reply())?.text, '{"name":"a"}');
  }
  assertRefusal(await wire.reply(), { error: 40002 });
  const malformed = await wire.reply();
  assert.deepEqual([malformed?.status, malformed?.text], [400, ""]);
  assert.equal(await wire.rest(), "");
  return [[["plants", 300n], { name: "a" }], [["plants", 301n], { name: "a" }]];
});

test("a request inside a refused body is not answered", async (program) => {
  const inner = request('{"id":303,"name":"smuggled"}');
  for (
    const outer of [
      request(inner, { line: "POST /ferns HTTP/1.1" }),
      request(inner, { without: ["authorization"] }),
      request(inner),
      request(chunked(inner, inner.length), {
        line: "POST /ferns HTTP/1.1",
        headers: ["transfer-encoding: chunked"],
      }),
    ]
  ) {
    using wire = await Wire.connect(program.port);
    await wire.send(outer);
    const reply = await wire.reply();
    assert.ok(reply !== undefined && reply.status >= 400, reply?.text);
    // If the connection is still open, the next reply is to this request.
    await wire.send(request("", {
      line: "GET /livez HTTP/1.1",
      headers: ["connection: close"],
      without: ["content-length"],
    }));
    const next = await wire.reply();
    assert.ok(next === undefined || next.text === '{"status":"ok"}');
  }
});

test("the reply to HEAD has the headers of that to GET, and the next reply follows at once", async (program) => {
  const [head, get] = ["HEAD", "GET"].map((method) =>
    request("", {
      line: `${method} /livez HTTP/1.1`,
      without: ["content-length"],
    })
  );
  using wire = await Wire.connect(program.port);
  await wire.send(concatenate(head ?? "", get ?? ""));
  const replies = [await wire.reply({ isToHead: true }), await wire.reply()];
  const [ofHead, ofGet] = replies.map((reply) => {
    reply?.headers.delete("date");
    return [reply?.status, ...reply?.headers ?? []];
  });
  assert.deepEqual(ofHead, ofGet);
  assert.equal(replies[1]?.text, '{"status":"ok"}');
});

test("a connection closes after the reply if the client asks for that or uses HTTP/1.0", async (program) => {
  const differences = [
    { headers: ["connection: close"] },
    { line: "POST /plants HTTP/1.0" },
  ];
  const bodies = [['{"id":302,"name":"a"}', 200], ["[]", 400]] as const;
  for (const [body, status] of bodies) {
    for (const difference of differences) {
      using wire = await Wire.connect(program.port);
      await wire.send(request(body, difference));
      const reply = await wire.reply();
      assert.equal(reply?.status, status, reply?.text);
      assert.equal(await wire.rest(), "");
    }
  }
  return [[["plants", 302n], { name: "a" }]];
});

test("100 Continue is sent before the body, and the reply after it", async (program) => {
  const body = '{"id":304,"name":"a"}';
  using wire = await Wire.connect(program.port);
  await wire.send(request("", {
    headers: [`content-length: ${body.length}`, "expect: 100-continue"],
  }));
  await wire.received("HTTP/1.1 100 Continue\r\n\r\n");
  await wire.send(body);
  assert.equal((await wire.reply())?.status, 200);
  return [[["plants", 304n], { name: "a" }]];
});

test("a client that expects 100 Continue gets a refusal instead, if the headers are refused", async (program) => {
  const line = "POST /ferns HTTP/1.1";
  for (
    const [error, headers, differences] of [
      [40401, ["content-length: 22"], { line }],
      [40102, ["content-length: 22", "authorization: Bearer guess"], {}],
      [41501, ["content-length: 22", "content-type: text/plain"], {}],
      [41301, ["content-length: 32769"], {}],
    ] as const
  ) {
    using wire = await Wire.connect(program.port);
    await wire.send(request("", {
      ...differences,
      headers: ["expect: 100-continue", ...headers],
    }));
    assertRefusal(await wire.reply(), { error });
  }
});
