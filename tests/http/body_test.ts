import assert from "node:assert/strict";
import { type ErrorName, ErrorReply } from "../../src/errors.ts";
import { type Body, BodyReader } from "../../src/http/body.ts";
import { BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX } from "../../src/limits.ts";
import { endlessStream, requestOf, streamOf } from "../support/bodies.ts";

/** Returns the text of a body, and releases it. */
async function readText(bodies: BodyReader, request: Request): Promise<string> {
  const body = await bodies.read(request);
  if (body instanceof ErrorReply) assert.fail(`refused: ${body.name}`);
  bodies.release(body);
  return body.text;
}

async function assertRefused(
  read: Promise<Body | ErrorReply>,
  name: ErrorName,
): Promise<void> {
  const outcome = await read;
  assert.ok(outcome instanceof ErrorReply, "accepted");
  assert.equal(outcome.name, name, outcome.message);
}

for (const length of [0, 1, BODY_BYTES_MAX - 1, BODY_BYTES_MAX]) {
  Deno.test(`read() returns a body of ${length} bytes`, async () => {
    const text = "x".repeat(length);
    const bodies = new BodyReader();
    for (
      const request of [
        requestOf(text, length),
        requestOf(text),
        requestOf(streamOf(text.match(/.{1,999}/g) ?? []).stream),
        requestOf(streamOf(text).stream),
      ]
    ) assert.equal(await readText(bodies, request), text);
    assert.equal(bodies.heldBytes, 0);
  });
}

Deno.test("read() returns an empty text if the request has no body", async () => {
  assert.equal(await readText(new BodyReader(), requestOf(null)), "");
});

Deno.test("read() joins the bytes of a character that arrive in several chunks", async () => {
  const parts = Array.from(
    new TextEncoder().encode("🌱"),
    (byte) => Uint8Array.of(byte),
  );
  const { stream } = streamOf(parts);
  assert.equal(await readText(new BodyReader(), requestOf(stream)), "🌱");
});

Deno.test("read() copies chunks, which may share a larger buffer", async () => {
  const shared = new Uint8Array(64 * 1024);
  const { stream } = streamOf(function* () {
    for (const byte of new TextEncoder().encode("chunks")) {
      shared[0] = byte;
      yield shared.subarray(0, 1);
    }
  }());
  assert.equal(await readText(new BodyReader(), requestOf(stream)), "chunks");
});

Deno.test("read() keeps a byte order mark, which the JSON reader refuses", async () => {
  const text = "\ufeff{}";
  for (const request of [requestOf(text, 5), requestOf(text)]) {
    assert.equal(await readText(new BodyReader(), request), text);
  }
});

Deno.test("read() refuses a body of one byte more than the limit", async () => {
  const text = "x".repeat(BODY_BYTES_MAX + 1);
  const bodies = new BodyReader();
  for (
    const request of [
      requestOf(text, text.length),
      requestOf(text),
      requestOf(streamOf([text]).stream),
      requestOf(streamOf([text.slice(1), "x"]).stream),
      requestOf(streamOf(text).stream),
    ]
  ) await assertRefused(bodies.read(request), "bodyTooLarge");
  assert.equal(bodies.heldBytes, 0);
});

Deno.test("read() refuses an endless body, and reads a bounded part of it", async () => {
  const bodies = new BodyReader();
  const { stream, cancelled, readBytes } = endlessStream(1024);
  await assertRefused(bodies.read(requestOf(stream)), "bodyTooLarge");
  await cancelled;
  assert.equal(readBytes(), BODY_BYTES_MAX + 1024 + BODY_DISCARD_BYTES_MAX);
  assert.equal(bodies.heldBytes, 0);
});

for (const length of [BODY_BYTES_MAX + 1, 2 ** 53, 1e300]) {
  Deno.test(`read() refuses a Content-Length of ${length} without reading`, async () => {
    const bodies = new BodyReader();
    const { stream, readBytes } = endlessStream(1024);
    const request = requestOf(stream);
    request.headers.set("content-length", BigInt(length).toString());
    await assertRefused(bodies.read(request), "bodyTooLarge");
    assert.equal(readBytes(), 0);
    assert.equal(request.bodyUsed, false);
    assert.equal(bodies.heldBytes, 0);
  });
}

for (
  const contentLength of ["", "-1", "+2", "2, 2", "0x2", "1e300", "2.0", "two"]
) {
  Deno.test(`read() counts the bytes if the Content-Length is ${JSON.stringify(contentLength)}`, async () => {
    const bodies = new BodyReader();
    const withLength = (body: BodyInit) => {
      const request = requestOf(body);
      request.headers.set("content-length", contentLength);
      return request;
    };
    assert.equal(await readText(bodies, withLength("{}")), "{}");
    const tooLarge = withLength("x".repeat(BODY_BYTES_MAX + 1));
    await assertRefused(bodies.read(tooLarge), "bodyTooLarge");
  });
}

/** Both orders in which a client can send the two headers. */
const LENGTH_AND_ENCODING = [
  (length: number) => [
    ["content-length", String(length)],
    ["transfer-encoding", "chunked"],
  ],
  (length: number) => [
    ["transfer-encoding", "chunked"],
    ["content-length", String(length)],
  ],
] as const;

for (const headersOf of LENGTH_AND_ENCODING) {
  const order = headersOf(22).map(([name]) => name).join(" and ");
  const withHeaders = (body: BodyInit, length: number) => {
    const request = requestOf(body);
    for (const [name = "", value = ""] of headersOf(length)) {
      request.headers.set(name, value);
    }
    return request;
  };

  Deno.test(`read() ignores the length in ${order}`, async () => {
    const bodies = new BodyReader();
    const { stream, cancelled, readBytes } = endlessStream(1024);
    await assertRefused(
      bodies.read(withHeaders(stream, 22)),
      "bodyTooLarge",
    );
    await cancelled;
    assert.equal(readBytes(), BODY_BYTES_MAX + 1024 + BODY_DISCARD_BYTES_MAX);
    for (const length of [0, 22, BODY_BYTES_MAX + 1]) {
      const { stream } = streamOf(["{", "}"]);
      assert.equal(await readText(bodies, withHeaders(stream, length)), "{}");
    }
    assert.equal(bodies.heldBytes, 0);
  });

  Deno.test(`discard() ignores the length in ${order}`, async () => {
    const { stream, cancelled, readBytes } = endlessStream(1024);
    new BodyReader().discard(withHeaders(stream, 22));
    await cancelled;
    assert.equal(readBytes(), BODY_DISCARD_BYTES_MAX);
  });
}

for (const length of [undefined, 100]) {
  const kind = length === undefined ? "in chunks" : "with a Content-Length";

  Deno.test(`read() refuses a body ${kind} that is incomplete`, async () => {
    const bodies = new BodyReader();
    const { stream } = streamOf(["{}"], "fails");
    const outcome = await bodies.read(requestOf(stream, length));
    assert.ok(outcome instanceof ErrorReply, "accepted");
    assert.equal(outcome.name, "notJson");
    assert.equal(outcome.message, "body: expected all of it, got a part");
    assert.equal(bodies.heldBytes, 0);
  });

  Deno.test(`read() refuses a body ${kind} that is not UTF-8`, async () => {
    const bodies = new BodyReader();
    const { stream } = streamOf(["caf", Uint8Array.of(0xe9), "!"]);
    const read = bodies.read(requestOf(stream, length));
    await assertRefused(read, "notUtf8");
    assert.equal(bodies.heldBytes, 0);
  });

  Deno.test(`read() refuses a body ${kind} that was read before`, async () => {
    const bodies = new BodyReader();
    const request = requestOf("{}", length);
    await request.text();
    await assertRefused(bodies.read(request), "notJson");
    assert.equal(bodies.heldBytes, 0);
  });
}
