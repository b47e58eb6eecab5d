import assert from "node:assert/strict";
import { ApiError, type ErrorName } from "../../src/errors.ts";
import { BodyReader } from "../../src/http/body.ts";
import { BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX } from "../../src/limits.ts";
import { endlessStream, requestOf, streamOf } from "../support/bodies.ts";
import { toBytes } from "../support/wire.ts";

/** Reads a body and returns its text or its refusal. */
function read(bodies: BodyReader, request: Request) {
  return bodies.read(request, (text) => text);
}

async function assertRefused(
  bodies: BodyReader,
  request: Request,
  name: ErrorName,
): Promise<void> {
  const outcome = await read(bodies, request);
  assert.ok(outcome instanceof ApiError, "accepted");
  assert.equal(outcome.name, name, outcome.message);
  assert.equal(bodies.reservedBytes, 0);
}

/** Returns a request with headers that are not derived from its body. */
function withHeaders(body: BodyInit, headers: Record<string, string>): Request {
  const request = requestOf(body);
  for (const name in headers) request.headers.set(name, headers[name] ?? "");
  return request;
}

Deno.test("read() returns a body of up to BODY_BYTES_MAX bytes, with a byte order mark", async () => {
  const bodies = new BodyReader();
  assert.equal(await read(bodies, requestOf(null)), "");
  const largest = "é".repeat(BODY_BYTES_MAX / 2);
  for (const text of ["", "x", "\ufeff{}", largest]) {
    for (
      const request of [
        requestOf(text, toBytes(text).length),
        requestOf(streamOf(text.match(/.{1,999}/g) ?? []).stream),
        requestOf(streamOf(text).stream),
      ]
    ) assert.equal(await read(bodies, request), text);
  }
  assert.equal(bodies.reservedBytes, 0);
});

Deno.test("read() joins the bytes of a character that arrive in several chunks, which may share a larger buffer", async () => {
  const shared = new Uint8Array(64 * 1024);
  const { stream } = streamOf(function* () {
    for (const byte of new TextEncoder().encode("é🌱")) {
      shared[0] = byte;
      yield shared.subarray(0, 1);
    }
  }());
  assert.equal(await read(new BodyReader(), requestOf(stream)), "é🌱");
});

Deno.test("read() refuses a body of one byte more than the limit", async () => {
  const text = "x".repeat(BODY_BYTES_MAX + 1);
  for (
    const request of [
      requestOf(text, text.length),
      requestOf(streamOf([text]).stream),
      requestOf(streamOf([text.slice(1), "x"]).stream),
    ]
  ) await assertRefused(new BodyReader(), request, "bodyTooLarge");
});

Deno.test("read() refuses a Content-Length above the limit without reading", async () => {
  for (const length of [`${BODY_BYTES_MAX + 1}`, "9".repeat(300)]) {
    const { stream, readBytes } = endlessStream(1024);
    const request = withHeaders(stream, { "content-length": length });
    await assertRefused(new BodyReader(), request, "bodyTooLarge");
    assert.equal(readBytes(), 0);
    assert.equal(request.bodyUsed, false);
  }
});

Deno.test("read() counts the bytes if the Content-Length is not a number, or beside a Transfer-Encoding", async () => {
  const bodies = new BodyReader();
  for (
    const headers of [
      ...["", "-1", "+2", "2, 2", "0x2", "1e300", "2.0"]
        .map((length) => ({ "content-length": length })),
      // A client can send both.
      { "content-length": "22", "transfer-encoding": "chunked" },
    ]
  ) {
    assert.equal(await read(bodies, withHeaders("{}", headers)), "{}");
    const tooLarge = withHeaders("x".repeat(BODY_BYTES_MAX + 1), headers);
    await assertRefused(bodies, tooLarge, "bodyTooLarge");
  }
});

Deno.test("read() refuses an endless body, and reads a bounded part of it", async () => {
  const { stream, cancelled, readBytes } = endlessStream(1024);
  await assertRefused(new BodyReader(), requestOf(stream), "bodyTooLarge");
  await cancelled;
  assert.equal(readBytes(), BODY_BYTES_MAX + 1024 + BODY_DISCARD_BYTES_MAX);
});

Deno.test("read() refuses a body that is not UTF-8", async () => {
  for (const length of [undefined, 5]) {
    const { stream } = streamOf(["caf", Uint8Array.of(0xe9), "!"]);
    const request = requestOf(stream, length);
    await assertRefused(new BodyReader(), request, "notUtf8");
  }
});

Deno.test("read() reports a body that is incomplete, or was read before", async () => {
  const bodies = new BodyReader();
  const used = requestOf("{}", 2);
  await used.text();
  const usedChunks = requestOf("{}");
  await usedChunks.text();
  for (
    const request of [
      requestOf(streamOf(["{}"], "fails").stream),
      requestOf(streamOf(["{}"], "fails").stream, 100),
      // The runtime ends the body of an HTTP/2 stream so that is reset.
      requestOf(streamOf(["{}"]).stream, 3),
      used,
      usedChunks,
    ]
  ) {
    assert.equal(await read(bodies, request), "incomplete");
    assert.equal(bodies.reservedBytes, 0);
  }
});
