/** What only a socket can send: request lines, headers, several requests at once. */
import assert from "node:assert/strict";
import { entriesIn } from "../support/plants.ts";
import { Program, stopCleanly } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  chunked,
  concatenate,
  createBytes,
  type Differences,
  exchange,
  Wire,
} from "../support/wire.ts";

const BODY = '{"id":2,"name":"Fern"}';

/** One refusal each before the body, of the body, and of its plant. */
const REFUSED = [
  // The runtime must pass this path on as it is.
  [40401, createBytes(BODY, { line: "POST /x/../plants HTTP/1.1" })],
  [40102, createBytes(BODY, { headers: ["authorization: Bearer guess"] })],
  [40002, createBytes("{")],
  [
    40002,
    createBytes(chunked("{", 1), { headers: ["transfer-encoding: chunked"] }),
  ],
  // The first plant has this id.
  [40901, createBytes('{"id":200,"name":"Fern"}')],
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

Deno.test("requests that are sent at once on one connection get their replies in order, refusals too", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const creates = REFUSED.map(([error, refused], i) => {
    const id = 200n + BigInt(i);
    const accepted = createBytes(`{"id":${id},"name":"plant ${id}"}`);
    return { id, name: `plant ${id}`, accepted, refused, error };
  });
  using wire = await Wire.connect(program.port);
  const sent = creates.flatMap((it) => [it.accepted, it.refused]);
  await wire.send(concatenate(...sent));
  for (const { name, error } of creates) {
    assert.equal((await wire.reply())?.text, JSON.stringify({ name }));
    assertRefusal(await wire.reply(), { error });
  }
  await stopCleanly(program);
  assert.deepEqual(
    await entriesIn(store),
    creates.map(({ id, name }) => [["plants", id], { name }]),
  );
});

Deno.test("a refusal before the body of its request announces that the connection closes", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  for (
    const [differences, expected] of [
      [{ line: "POST /ferns HTTP/1.1" }, 404],
      [{ without: ["authorization"] }, 401],
    ] as const
  ) {
    using wire = await Wire.connect(program.port);
    const bytes = createBytes(BODY, differences);
    await wire.send(bytes.subarray(0, -BODY.length));
    const { status, headers } = await wire.reply() ?? {};
    assert.equal(status, expected);
    assert.equal(headers?.get("connection"), "close");
  }
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), []);
});

/** Headers with which the runtime refuses a create, as the README says. */
const UPGRADES = [
  // As Java's HttpClient and `curl --http2` send it over http (RFC 7540, 3.2).
  [
    "connection: Upgrade, HTTP2-Settings",
    "upgrade: h2c",
    "http2-settings: AAMAAABkAAQAoAAAAAIAAAAA",
  ],
  ["connection: Upgrade", "upgrade: websocket"],
];

Deno.test("a create that asks for an upgrade gets an empty 400 and is not stored, as the README says", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  for (const headers of UPGRADES) {
    const refused = await exchange(
      program.port,
      createBytes(BODY, { headers }),
    );
    // 200 would mean that Deno has changed: remove the sentences in the README.
    assert.equal(refused?.status, 400);
    assert.equal(refused.text, "");
  }
  const accepted = '{"id":3,"name":"Moss"}';
  const reply = await exchange(program.port, createBytes(accepted));
  assert.equal(reply?.status, 200, reply?.text);
  await stopCleanly(program);
  const stored = await entriesIn(store);
  assert.deepEqual(stored, [[["plants", 3n], { name: "Moss" }]]);
});

Deno.test("a create with 128 lines of headers is stored, and one with 129 gets an empty 400, as the README says", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const headers = ["host", "authorization", "content-type", "content-length"];
  const more = Array.from(
    { length: 128 - headers.length },
    (_, i) => `x-${i}: y`,
  );
  const reply = await exchange(
    program.port,
    createBytes(BODY, { headers: more }),
  );
  assert.equal(reply?.status, 200, reply?.text);
  const refused = await exchange(
    program.port,
    createBytes('{"id":3,"name":"Moss"}', { headers: [...more, "x: y"] }),
  );
  assert.equal(refused?.status, 400);
  assert.equal(refused.text, "");
  await stopCleanly(program);
  const stored = await entriesIn(store);
  assert.deepEqual(stored, [[["plants", 2n], { name: "Fern" }]]);
});

for (const [name, differences] of ACCEPTED) {
  Deno.test(`a create with ${name} is stored`, async () => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await using program = await Program.start(store);
    const reply = await exchange(program.port, createBytes(BODY, differences));
    assert.equal(reply?.status, 200, reply?.text);
    assert.equal(reply.headers.get("content-type"), "application/json");
    assert.equal(reply.text, '{"name":"Fern"}');
    await stopCleanly(program);
    const stored = await entriesIn(store);
    assert.deepEqual(stored, [[["plants", 2n], { name: "Fern" }]]);
  });
}
