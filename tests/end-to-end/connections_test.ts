/** What only a socket can send: request lines, headers, several requests at once. */
import assert from "node:assert/strict";
import type { Entry } from "../support/entries.ts";
import { testsOfOneService } from "../support/one_service.ts";
import { assertRefusal } from "../support/refusals.ts";
import {
  chunked,
  concatenate,
  type Differences,
  exchange,
  request,
  Wire,
} from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

/** One refusal each before the body, of the body, and of its plant. */
const REFUSED = [
  // The runtime must pass this path on as it is.
  [40401, request(VALID, { line: "POST /x/../plants HTTP/1.1" })],
  [40102, request(VALID, { headers: ["authorization: Bearer guess"] })],
  [40002, request("{")],
  [
    40002,
    request(chunked("{", 1), { headers: ["transfer-encoding: chunked"] }),
  ],
  // The first plant has this id.
  [40901, request('{"id":200,"name":"Fern"}')],
] as const;

/** How creates differ from an ordinary one, and are stored all the same. */
const ACCEPTED: readonly (readonly [string, Differences])[] = [
  ["an absolute target", { line: "POST http://a.test/plants HTTP/1.1" }],
  ["an empty Host", { headers: ["host: "] }],
  [
    "HTTP/1.0 and no Host",
    { line: "POST /plants HTTP/1.0", without: ["host"] },
  ],
];

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

for (const [i, [name, differences]] of ACCEPTED.entries()) {
  test(`a create with ${name} is stored`, async (program) => {
    const id = 400n + BigInt(i);
    const body = `{"id":${id},"name":"Fern"}`;
    const reply = await exchange(program.port, request(body, differences));
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, '{"name":"Fern"}');
    return [[["plants", id], { name: "Fern" }]];
  });
}
