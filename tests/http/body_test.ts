import assert from "node:assert/strict";
import { ApiError, type ErrorName } from "../../src/api_errors.ts";
import { BodyReader } from "../../src/http/body.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { bodyRequest, streamOf } from "../support/bodies.ts";
import { toBytes } from "../support/wire.ts";

/** Returns a body as text, or why there is none. */
async function read(request: Request): Promise<string | ApiError> {
  const received = await new BodyReader().read(request);
  return received instanceof ApiError
    ? received
    : new TextDecoder("utf-8", { ignoreBOM: true }).decode(received);
}

async function assertRefused(request: Request, name: ErrorName): Promise<void> {
  const outcome = await read(request);
  assert.ok(outcome instanceof ApiError, "accepted");
  assert.equal(outcome.name, name, outcome.message);
}

Deno.test("read() returns a body of up to BODY_BYTES_MAX bytes, with a byte order mark", async () => {
  assert.equal(await read(bodyRequest(null)), "");
  const largest = "é".repeat(BODY_BYTES_MAX / 2);
  for (const text of ["", "x", "\ufeff{}", largest]) {
    for (
      const request of [
        bodyRequest(text, toBytes(text).length),
        bodyRequest(streamOf(text.match(/.{1,999}/g) ?? []).stream),
        bodyRequest(streamOf(text).stream),
      ]
    ) assert.equal(await read(request), text);
  }
});

Deno.test("read() joins the bytes of a character that arrive in several chunks, which may share a larger buffer", async () => {
  const shared = new Uint8Array(64 * 1024);
  const { stream } = streamOf(function* () {
    for (const byte of new TextEncoder().encode("é🌱")) {
      shared[0] = byte;
      yield shared.subarray(0, 1);
    }
  }());
  assert.equal(await read(bodyRequest(stream)), "é🌱");
});

Deno.test("read() refuses a body of one byte more than the limit", async () => {
  const text = "x".repeat(BODY_BYTES_MAX + 1);
  for (
    const request of [
      bodyRequest(text, text.length),
      bodyRequest(streamOf([text]).stream),
      bodyRequest(streamOf([text.slice(1), "x"]).stream),
    ]
  ) await assertRefused(request, "bodyTooLarge");
});

Deno.test("read() refuses a Content-Length above the limit without reading the body", async () => {
  for (const length of [`${BODY_BYTES_MAX + 1}`, "9".repeat(300)]) {
    const { stream, readBytes } = streamOf(["{}"]);
    await assertRefused(bodyRequest(stream, length), "bodyTooLarge");
    assert.equal(readBytes(), 0);
  }
});

Deno.test("read() counts the bytes if the Content-Length is not a number", async () => {
  for (const length of ["", "-1", "+2", "2, 2", "0x2", "1e300", "2.0"]) {
    assert.equal(await read(bodyRequest("{}", length)), "{}");
    const tooLarge = bodyRequest("x".repeat(BODY_BYTES_MAX + 1), length);
    await assertRefused(tooLarge, "bodyTooLarge");
  }
});

Deno.test("read() refuses an endless body, and reads a bounded part of it", async () => {
  const part = new Uint8Array(1024);
  const { stream, cancelled, readBytes } = streamOf(function* () {
    for (;;) yield part;
  }());
  await assertRefused(bodyRequest(stream), "bodyTooLarge");
  await cancelled;
  assert.equal(readBytes(), BODY_BYTES_MAX + 1024);
});

Deno.test("read() reports a client that disconnects before the end of its body", async () => {
  for (
    const request of [
      bodyRequest(streamOf(["{}"], "fails").stream),
      bodyRequest(streamOf(["{}"], "fails").stream, 100),
      // The runtime ends the body of an HTTP/2 stream that is reset.
      bodyRequest(streamOf(["{}"]).stream, 3),
    ]
  ) await assertRefused(request, "notJson");
});

Deno.test("read() rejects if a body is read twice, which is a bug", async () => {
  for (const length of [undefined, 2]) {
    const request = bodyRequest("{}", length);
    request.body?.getReader();
    await assert.rejects(read(request), TypeError);
  }
});
