/** The framing and the limits of bodies, as only a socket can show them. */
import assert from "node:assert/strict";
import { once } from "node:events";
import http2 from "node:http2";
import { BODY_BYTES_MAX, BODY_MS_MAX } from "../../src/limits.ts";
import { entriesIn } from "../support/plants.ts";
import { Program, stopCleanly, TOKEN } from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually, inTime } from "../support/waiting.ts";
import { chunked, createBytes, exchange, Wire } from "../support/wire.ts";

const BODY = '{"id":2,"name":"Fern"}';

/** The metric of requests that are refused with 400. */
const REFUSED = 'plant_store_http_requests_total{code="400",method="post"}';

const CHUNKED = { headers: ["transfer-encoding: chunked"] };

/** Returns a create in chunks of a size. */
function inChunks(body: string, size: number): Uint8Array {
  return createBytes(chunked(body, size), CHUNKED);
}

Deno.test("a body of the largest size in chunks that split characters is stored", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const start = '{"id":100,"name":"';
  // Each é has two bytes.
  const name = "é".repeat(8).padEnd(BODY_BYTES_MAX - start.length - 10, "x");
  const bytes = inChunks(`${start}${name}"}`, 7);
  const reply = await exchange(program.port, bytes);
  assert.equal(reply?.status, 200, reply?.text);
  assert.deepEqual(JSON.parse(reply.text), { name });
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), [[["plants", 100n], { name }]]);
});

/** Requests that end before their bodies do. */
const PARTS = [
  createBytes(BODY, { headers: ["content-length: 23"] }),
  inChunks(BODY, 10).subarray(0, -5),
];

Deno.test("a client that disconnects before the end of its request stores nothing", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const refused = await program.metric(REFUSED);
  for (const bytes of [...PARTS, createBytes(BODY).subarray(0, 40)]) {
    using wire = await Wire.connect(program.port);
    await wire.send(bytes);
  }
  // The last one has not sent a complete head.
  await eventually(
    () => program.metric(REFUSED),
    (count) => count === refused + 2,
  );
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), []);
});

Deno.test("an HTTP/2 client that resets its stream before the end of a body stores nothing, although the part is a plant", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const refused = await program.metric(REFUSED);
  const session = http2.connect(program.origin);
  try {
    // After any other code, the runtime itself reports an error.
    const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = http2.constants;
    // The runtime may also notice a reset before it reads the part.
    for (let i = 0; i < 10; i++) {
      const stream = session.request({
        ":method": "POST",
        ":path": "/plants",
        "authorization": `Bearer ${TOKEN}`,
        "content-type": "application/json",
        "content-length": `${BODY.length + 1}`,
      });
      stream.write(BODY);
      // The reply to a later request shows that the part has arrived.
      const later = session.request({ ":path": "/livez" }).resume();
      await inTime(once(later, "end"), () => "a reply over HTTP/2");
      stream.close(i % 2 === 0 ? NGHTTP2_CANCEL : NGHTTP2_NO_ERROR);
      await eventually(
        () => program.metric(REFUSED),
        (count) => count === refused + i + 1,
      );
    }
  } finally {
    session.destroy();
  }
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), []);
});

Deno.test("a client that sends a large body sees why it is refused", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const body = "x".repeat(10_000_000);
  for (
    const [without, error] of [[["authorization"], 40101], [[], 41301]] as const
  ) {
    for (
      const bytes of [
        createBytes(body, { without }),
        createBytes(chunked(body, 64 * 1024), { without, ...CHUNKED }),
      ]
    ) assertRefusal(await exchange(program.port, bytes), { error });
  }
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), []);
});

/** A part of a request, and the rest of it. */
const SLOW: readonly (readonly [part: Uint8Array, rest: string])[] = [
  [
    createBytes(BODY.slice(0, 9), { headers: ["content-length: 22"] }),
    BODY.slice(9),
  ],
  [createBytes("", CHUNKED), `16\r\n${BODY}\r\n0\r\n\r\n`],
  [createBytes(`16\r\n${BODY}\r\n`, CHUNKED), "0\r\n\r\n"],
];

Deno.test("a body that has not arrived within 10 s is refused with 40801, and its connection ends with the rest of it", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const slow = SLOW.map(async ([part, rest]) => {
    using wire = await Wire.connect(program.port);
    await wire.send(part);
    const reply = await wire.reply();
    assertRefusal(reply, {
      error: 40801,
      message: `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
    });
    // Once: two such headers would be joined.
    assert.equal(reply?.headers.get("connection"), "close");
    // The runtime waits for the rest of a body before it ends a connection.
    await wire.send(rest);
    assert.equal(await wire.rest(), "");
  });
  await Promise.all(slow);
  await stopCleanly(program);
  assert.deepEqual(await entriesIn(store), []);
});
