/** What a connection does between and after requests. */
import assert from "node:assert/strict";
import type { Entry } from "../support/entries.ts";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import {
  chunked,
  concatenate,
  exchange,
  request,
  Wire,
} from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

/** One refusal each before the body, of the body, and of its plant. */
const REFUSED = [
  [40401, request(VALID, { line: "POST /ferns HTTP/1.1" })],
  [40102, request(VALID, { headers: ["authorization: Bearer guess"] })],
  [40002, request("{")],
  [
    40002,
    request(chunked("{", 1), { headers: ["transfer-encoding: chunked"] }),
  ],
  // The first plant has this id.
  [40901, request('{"id":200,"name":"Fern"}')],
] as const;

const { test } = testsOfOneService();

test("requests that are sent at once on one connection get their replies in order, refusals too", async (program) => {
  const creates = REFUSED.map(([error, refused], i) => {
    const id = 200n + BigInt(i);
    const accepted = request(`{"id":${id},"name":"plant ${id}"}`);
    return { id, name: `plant ${id}`, accepted, refused, error };
  });
  using wire = await Wire.connect(program.port);
  const sent = creates.flatMap((it) => [it.accepted, it.refused]);
  await wire.send(concatenate(...sent));
  for (const { name, error } of creates) {
    assert.equal((await wire.reply())?.text, JSON.stringify({ name }));
    assertRefusal(await wire.reply(), { error });
  }
  return creates.map(({ id, name }): Entry => [["plants", id], { name }]);
});

test("a connection whose body follows its refusal serves the next request, or the refusal has announced a close", async (program) => {
  for (
    const differences of [
      { line: "POST /ferns HTTP/1.1" },
      { without: ["authorization"] },
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

test("a client that expects 100 Continue gets it before the reply, or a refusal of its headers instead", async (program) => {
  const body = '{"id":304,"name":"a"}';
  const expecting = (...headers: string[]) =>
    request("", { headers: ["expect: 100-continue", ...headers] });
  using wire = await Wire.connect(program.port);
  await wire.send(expecting(`content-length: ${body.length}`));
  await wire.received("HTTP/1.1 100 Continue\r\n\r\n");
  await wire.send(body);
  assert.equal((await wire.reply())?.status, 200);
  for (
    const [error, bytes] of [
      [40102, expecting("content-length: 22", "authorization: Bearer guess")],
      [41301, expecting("content-length: 32769")],
    ] as const
  ) assertRefusal(await exchange(program.port, bytes), { error });
  return [[["plants", 304n], { name: "a" }]];
});
