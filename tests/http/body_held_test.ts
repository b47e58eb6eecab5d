import assert from "node:assert/strict";
import { ErrorReply } from "../../src/errors.ts";
import { type Body, BodyReader } from "../../src/http/body.ts";
import { BODIES_HELD_BYTES_MAX, BODY_BYTES_MAX } from "../../src/limits.ts";
import { requestOf, streamOf } from "../support/bodies.ts";

const SHUTTING_DOWN = new ErrorReply("shuttingDown");

function assertBody(outcome: Body | ErrorReply): Body {
  if (outcome instanceof ErrorReply) assert.fail(`refused: ${outcome.name}`);
  return outcome;
}

/** Splits a number of bytes into bodies of at most the limit. */
function lengthsOf(bytes: number): number[] {
  const count = Math.ceil(bytes / BODY_BYTES_MAX);
  return Array.from(
    { length: count },
    (_, i) => Math.min(BODY_BYTES_MAX, bytes - i * BODY_BYTES_MAX),
  );
}

/** Starts to read bodies that stay incomplete. */
function holdArriving(bodies: BodyReader, bytes: number): void {
  for (const length of lengthsOf(bytes)) {
    bodies.read(requestOf(streamOf([], "hangs").stream, length));
  }
}

/** Reads bodies without releasing them. */
async function holdUnreleased(
  bodies: BodyReader,
  bytes: number,
): Promise<Body[]> {
  const held: Body[] = [];
  for (const length of lengthsOf(bytes)) {
    const text = "x".repeat(length);
    held.push(assertBody(await bodies.read(requestOf(text, length))));
  }
  return held;
}

for (const length of [0, 1, 60, BODY_BYTES_MAX]) {
  for (const isChunked of [false, true]) {
    const kind = isChunked ? "in chunks" : "with a Content-Length";
    Deno.test(`a body of ${length} bytes ${kind} is held until it is released`, async () => {
      const bodies = new BodyReader();
      const request = requestOf(
        "é".repeat(length / 2) + "x".repeat(length % 2),
        isChunked ? undefined : length,
      );
      const body = assertBody(await bodies.read(request));
      assert.equal(body.bytes, length);
      assert.equal(bodies.heldBytes, length);
      bodies.release(body);
      assert.equal(bodies.heldBytes, 0);
    });
  }
}

Deno.test("a body with a Content-Length is held in full from the start", () => {
  const bodies = new BodyReader();
  bodies.read(requestOf(streamOf([], "hangs").stream, 500));
  assert.equal(bodies.heldBytes, 500);
  bodies.read(requestOf(streamOf([], "hangs").stream, 70));
  assert.equal(bodies.heldBytes, 570);
});

Deno.test("a body in chunks is held as it arrives", async () => {
  const bodies = new BodyReader();
  const { stream, exhausted } = streamOf(["abc", "de"], "hangs");
  bodies.read(requestOf(stream));
  assert.equal(bodies.heldBytes, 0);
  await exhausted;
  assert.equal(bodies.heldBytes, 5);
});

for (const isChunked of [false, true]) {
  const kind = isChunked ? "in chunks" : "with a Content-Length";
  const requestOfBytes = (length: number) =>
    isChunked
      ? requestOf(streamOf("x".repeat(length)).stream)
      : requestOf("x".repeat(length), length);

  Deno.test(`read() refuses a body ${kind} above BODIES_HELD_BYTES_MAX, of arriving and unreleased bodies together`, async () => {
    const bodies = new BodyReader();
    const half = BODIES_HELD_BYTES_MAX / 2;
    holdArriving(bodies, half);
    await holdUnreleased(bodies, half - 3);
    assert.equal(bodies.heldBytes, BODIES_HELD_BYTES_MAX - 3);

    // Above, at and below the limit.
    const outcome = await bodies.read(requestOfBytes(4));
    assert.ok(outcome instanceof ErrorReply, "accepted");
    assert.equal(outcome.name, "queueFull");
    assert.equal(bodies.heldBytes, BODIES_HELD_BYTES_MAX - 3);
    for (const length of [3, 2]) {
      const body = assertBody(await bodies.read(requestOfBytes(length)));
      bodies.release(body);
    }
    assert.equal(bodies.heldBytes, BODIES_HELD_BYTES_MAX - 3);
  });

  Deno.test(`read() accepts a body ${kind} again once another is released`, async () => {
    const bodies = new BodyReader();
    const [first] = await holdUnreleased(bodies, 1);
    holdArriving(bodies, BODIES_HELD_BYTES_MAX - 1);
    const outcome = await bodies.read(requestOfBytes(1));
    assert.ok(outcome instanceof ErrorReply, "accepted");
    assert.equal(outcome.name, "queueFull");

    if (first !== undefined) bodies.release(first);
    assertBody(await bodies.read(requestOfBytes(1)));
    assert.equal(bodies.heldBytes, BODIES_HELD_BYTES_MAX);
    bodies.refuseAll(SHUTTING_DOWN);
    assert.equal(bodies.heldBytes, 1);
  });
}

Deno.test("read() accepts an empty body although BODIES_HELD_BYTES_MAX are held", async () => {
  const bodies = new BodyReader();
  holdArriving(bodies, BODIES_HELD_BYTES_MAX);
  for (const request of [requestOf(null), requestOf(""), requestOf("", 0)]) {
    assertBody(await bodies.read(request));
  }
});

Deno.test("read() refuses a body in chunks when it reaches the limit, and releases its bytes", async () => {
  const bodies = new BodyReader();
  holdArriving(bodies, BODIES_HELD_BYTES_MAX - 2);
  const { stream, readBytes } = streamOf(["a", "b", "c", "d"], "hangs");
  const outcome = await bodies.read(requestOf(stream));
  assert.ok(outcome instanceof ErrorReply, "accepted");
  assert.equal(outcome.name, "queueFull");
  assert.ok(readBytes() >= 3);
  assert.equal(bodies.heldBytes, BODIES_HELD_BYTES_MAX - 2);
});

Deno.test("a refused body is not held, whatever arrives later", async () => {
  const bodies = new BodyReader();
  const { stream, exhausted, send, cancelled } = streamOf(["{"], "hangs");
  const read = bodies.read(requestOf(stream));
  await exhausted;
  assert.equal(bodies.heldBytes, 1);
  bodies.refuseAll(SHUTTING_DOWN);
  assert.equal(await read, SHUTTING_DOWN);
  assert.equal(bodies.heldBytes, 0);
  // The first chunk ends the reading of the body, the second the discarding.
  send(new Uint8Array(1));
  send(new Uint8Array(2 * 1024 * 1024));
  await cancelled;
  assert.equal(bodies.heldBytes, 0);
});

Deno.test("a refused body with a Content-Length is not held when it completes later", async () => {
  const bodies = new BodyReader();
  const { stream, exhausted } = streamOf(["{}"]);
  const read = bodies.read(requestOf(stream, 2));
  bodies.refuseAll(SHUTTING_DOWN);
  assert.equal(await read, SHUTTING_DOWN);
  assert.equal(bodies.heldBytes, 0);
  await exhausted;
  assert.equal(bodies.heldBytes, 0);
});
