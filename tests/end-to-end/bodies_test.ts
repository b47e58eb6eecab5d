/** The framing and the limits of bodies, as only a socket can show them. */
import assert from "node:assert/strict";
import { BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX } from "../../src/limits.ts";
import { residentBytes } from "../support/load.ts";
import { ObservedProgram } from "../support/observed_program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { chunked, concatenate, request, Wire } from "../support/wire.ts";

const VALID = '{"id":2,"name":"Fern"}';

const TOO_LARGE = {
  error: 41301,
  message: "body: expected at most 32768 bytes",
};
const INCOMPLETE = {
  error: 40002,
  message: "body: expected all of it, got a part",
};

/** Far above what the service may read of a body that it refuses. */
const ENDLESS_BYTES = 100_000_000;

/** A name that makes a body of so many bytes, with an id of three digits. */
function nameOf(bodyBytes: number): string {
  return "x".repeat(bodyBytes - '{"id":100,"name":""}'.length);
}

/** Returns a create in chunks of a size. */
function inChunks(body: string | Uint8Array, size: number): Uint8Array {
  return request(chunked(body, size), {
    headers: ["transfer-encoding: chunked"],
  });
}

/** Compresses a text with gzip. */
function gzip(text: string): Promise<Uint8Array> {
  const compressed = new Blob([text]).stream()
    .pipeThrough(new CompressionStream("gzip"));
  return new Response(compressed).bytes();
}

let service: ObservedProgram;
let nextId = 100;

Deno.test.beforeAll(async () => {
  service = await ObservedProgram.start();
});

Deno.test.afterAll(() => service?.[Symbol.asyncDispose]());

/** How to send a body: with a length, or in chunks of a size. */
const FRAMINGS: readonly (readonly [
  name: string,
  frame: (body: string) => Uint8Array,
])[] = [
  ["with a length", (body) => request(body)],
  ["in one chunk", (body) => inChunks(body, body.length)],
  ["in chunks of 1,000 bytes", (body) => inChunks(body, 1_000)],
  ["in chunks of 7 bytes", (body) => inChunks(body, 7)],
  ["in chunks of 1 byte", (body) => inChunks(body, 1)],
];

for (const [name, frame] of FRAMINGS) {
  for (const bytes of [BODY_BYTES_MAX - 1, BODY_BYTES_MAX]) {
    Deno.test(`a body of ${bytes} bytes ${name} is stored`, async () => {
      const before = await service.stored();
      const id = nextId++;
      const plant = { name: nameOf(bytes) };
      const reply = await service.exchange(
        frame(`{"id":${id},"name":"${plant.name}"}`),
      );
      assert.equal(reply?.status, 200, reply?.text);
      assert.deepEqual(JSON.parse(reply.text), plant);
      assert.deepEqual(
        await service.stored(),
        [...before, [["plants", BigInt(id)], plant]],
      );
    });
  }

  Deno.test(`a body of ${BODY_BYTES_MAX + 1} bytes ${name} is refused`, async () => {
    const before = await service.stored();
    const body = `{"id":999,"name":"${nameOf(BODY_BYTES_MAX + 1)}"}`;
    assertRefusal(await service.exchange(frame(body)), TOO_LARGE);
    assert.deepEqual(await service.stored(), before);
  });
}

for (
  const [name, bytes] of [
    [
      "a length above the limit, before any of the body has arrived",
      request("", { headers: ["content-length: 32769"] }),
    ],
    [
      "a length of 2^60",
      request("", { headers: ["content-length: 1152921504606846976"] }),
    ],
    [
      "chunks without an end",
      inChunks("x".repeat(1_000_000), 10_000).subarray(0, -5),
    ],
    [
      "a length above the limit and Expect: 100-continue",
      request("", {
        headers: ["content-length: 32769", "expect: 100-continue"],
      }),
    ],
  ] as const
) {
  Deno.test(`a create with ${name} is refused with 41301`, async () => {
    const before = await service.stored();
    assertRefusal(await service.exchange(bytes), TOO_LARGE);
    assert.deepEqual(await service.stored(), before);
  });
}

for (
  const [name, frame] of [
    ["chunks of one byte that split characters", (body) => inChunks(body, 1)],
    ["a length given twice", (body) => {
      const length = `content-length: ${new TextEncoder().encode(body).length}`;
      return request(body, { headers: [length, length] });
    }],
    ["a chunk extension", (body) => {
      const chunks = new TextDecoder().decode(chunked(body, 100));
      return request(chunks.replace("\r\n", ";name=value\r\n"), {
        headers: ["transfer-encoding: chunked"],
      });
    }],
    ["a trailer", (body) =>
      request(
        concatenate(chunked(body, 100).subarray(0, -2), "x: y\r\n\r\n"),
        { headers: ["transfer-encoding: chunked"] },
      )],
    [
      "Expect: 100-continue",
      (body) => request(body, { headers: ["expect: 100-continue"] }),
    ],
    [
      "the Content-Encoding identity",
      (body) => request(body, { headers: ["content-encoding: identity"] }),
    ],
  ] satisfies [string, (body: string) => Uint8Array][]
) {
  Deno.test(`a create with ${name} is stored`, async () => {
    const before = await service.stored();
    const id = nextId++;
    const plant = { name: "é🌱" };
    const reply = await service.exchange(
      frame(`{"id":${id},"name":"${plant.name}"}`),
    );
    assert.equal(reply?.status, 200, reply?.text);
    assert.deepEqual(
      await service.stored(),
      [...before, [["plants", BigInt(id)], plant]],
    );
  });
}

Deno.test("a body in gzip is refused with 41502", async () => {
  const before = await service.stored();
  const body = await gzip(VALID);
  for (const coding of ["gzip", "x-gzip", "GZIP"]) {
    const headers = [`content-encoding: ${coding}`];
    for (
      const bytes of [
        request(body, { headers }),
        request(chunked(body, 10), {
          headers: [...headers, "transfer-encoding: chunked"],
        }),
      ]
    ) {
      assertRefusal(await service.exchange(bytes), {
        error: 41502,
        message: `Content-Encoding: expected identity, got ${coding}`,
      });
    }
  }
  assertRefusal(await service.exchange(request(body)), {
    error: 40001,
    message: "body: expected well-formed UTF-8",
  });
  assert.deepEqual(await service.stored(), before);
});

Deno.test("an incomplete body of a client that stops sending is refused", async () => {
  const before = await service.stored();
  for (
    const bytes of [
      request(VALID, { headers: ["content-length: 23"] }),
      request(VALID.slice(0, -1), { headers: ["content-length: 22"] }),
      request("", { headers: ["content-length: 22"] }),
      inChunks(VALID, 10).subarray(0, -1),
      inChunks(VALID, 10).subarray(0, -5),
      inChunks(VALID, 10).subarray(0, -9),
    ]
  ) {
    using wire = await Wire.connect(service.port);
    await wire.send(bytes);
    await wire.closeWrite();
    assertRefusal(await wire.reply(), INCOMPLETE);
    assert.equal(await wire.rest(), "");
  }
  assert.deepEqual(await service.stored(), before);
});

Deno.test("a client that stops sending after its create may get no reply, and gets 200 when it repeats the create", async () => {
  const before = await service.stored();
  const id = nextId++;
  const bytes = request(`{"id":${id},"name":"Fern"}`);
  using wire = await Wire.connect(service.port);
  await wire.send(bytes);
  await wire.closeWrite();
  const reply = await wire.reply();
  assert.ok(reply === undefined || reply.status === 200);
  assert.equal((await service.exchange(bytes))?.status, 200);
  assert.deepEqual(
    await service.stored(),
    [...before, [["plants", BigInt(id)], { name: "Fern" }]],
  );
});

Deno.test("a client that disconnects before the end of its request stores nothing", async () => {
  const before = await service.stored();
  for (
    const bytes of [
      request(VALID, { headers: ["content-length: 23"] }),
      inChunks(VALID, 10).subarray(0, -5),
      request(VALID).subarray(0, 40),
    ]
  ) {
    using wire = await Wire.connect(service.port);
    await wire.send(bytes);
  }
  // The service has noticed that the others disconnected when it replies.
  assert.equal((await service.exchange(request("[]")))?.status, 400);
  assert.deepEqual(await service.stored(), before);
});

Deno.test("a chunk with an invalid size is refused", async () => {
  const before = await service.stored();
  for (const chunk of ["zz\r\n", "-1\r\n", "fffffffffffffffff\r\n", "\r\n"]) {
    const headers = ["transfer-encoding: chunked"];
    const reply = await service.exchange(request(chunk, { headers }));
    assert.ok(reply === undefined || reply.status === 400, reply?.text);
  }
  assert.deepEqual(await service.stored(), before);
});

Deno.test("a refused body is not read to its end", async () => {
  const before = await service.stored();
  const part = new Uint8Array(64 * 1024);
  for (
    const differences of [
      { line: "POST /nowhere HTTP/1.1" },
      { line: "PUT /plants HTTP/1.1" },
      { without: ["authorization"] },
      { without: ["content-type"] },
      {},
    ]
  ) {
    using wire = await Wire.connect(service.port);
    const headers = ["content-length: 1000000000"];
    await wire.send(request("", { headers, ...differences }));
    assert.notEqual((await wire.reply())?.status, 200);
    let sentBytes = 0;
    while (await wire.send(part) && sentBytes < ENDLESS_BYTES) {
      sentBytes += part.length;
    }
    assert.ok(sentBytes < ENDLESS_BYTES, `${sentBytes} bytes were accepted`);
  }
  assert.deepEqual(await service.stored(), before);
});

for (
  const framing of [
    ["content-length: 22", "transfer-encoding: chunked"],
    ["transfer-encoding: chunked", "content-length: 22"],
  ]
) {
  Deno.test(`a create with "${framing.join('" before "')}" is stored as its chunks say, or refused with a bare 400`, async () => {
    const before = await service.stored();
    const id = nextId++;
    const body = `{"id":${id},"name":"longer than the length"}`;
    const reply = await service.exchange(
      request(chunked(body, 5), { headers: framing }),
    );
    const after = await service.stored();
    if (reply?.status === 200) {
      const plant = { name: "longer than the length" };
      assert.deepEqual(after, [...before, [["plants", BigInt(id)], plant]]);
    } else {
      assert.equal(reply?.status, 400, reply?.text);
      assert.equal(reply.text, "");
      assert.deepEqual(after, before);
    }
  });

  Deno.test(`chunks without an end after "${framing.join('" before "')}" are refused, and not kept in memory`, async () => {
    const before = await service.stored();
    const beforeBytes = await residentBytes(service.program);
    using wire = await Wire.connect(service.port);
    await wire.send(request("", { headers: framing }));
    const chunk = concatenate("10000\r\n", new Uint8Array(65_536), "\r\n");
    let sentBytes = 0;
    while (await wire.send(chunk) && sentBytes < ENDLESS_BYTES) {
      sentBytes += chunk.length;
    }
    const grownBytes = await residentBytes(service.program) - beforeBytes;
    assert.ok(sentBytes < ENDLESS_BYTES, `${sentBytes} bytes were accepted`);
    assert.ok(grownBytes < 32 * 2 ** 20, `memory grew by ${grownBytes} bytes`);
    // A reply can be lost with the connection of a client that still sends.
    const reply = await wire.reply();
    if (reply?.status === 413) assertRefusal(reply, TOO_LARGE);
    else if (reply !== undefined) {
      assert.deepEqual([reply.status, reply.text], [400, ""]);
    }
    assert.deepEqual(await service.stored(), before);
  });

  Deno.test(`a body of ${BODY_DISCARD_BYTES_MAX} bytes in chunks after "${framing.join('" before "')}" gets its refusal`, async () => {
    const before = await service.stored();
    const chunks = chunked(new Uint8Array(BODY_DISCARD_BYTES_MAX), 65_536);
    const reply = await service.exchange(request(chunks, { headers: framing }));
    if (reply?.status === 413) assertRefusal(reply, TOO_LARGE);
    else assert.deepEqual([reply?.status, reply?.text], [400, ""]);
    assert.deepEqual(await service.stored(), before);
  });
}
