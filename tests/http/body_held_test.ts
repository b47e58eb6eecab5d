import assert from "node:assert/strict";
import { ApiError, type ErrorName } from "../../src/errors.ts";
import { BodyReader } from "../../src/http/body.ts";
import {
  BODIES_RESERVED_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../../src/limits.ts";
import { requestOf, streamOf } from "../support/bodies.ts";

const SHUTTING_DOWN = new ApiError("shuttingDown");

/** How a body can arrive. */
const KINDS = [
  ["with a Content-Length", (text: string) => requestOf(text, text.length)],
  ["in chunks", (text: string) => requestOf(streamOf(text).stream)],
] as const;

/** Returns a reader of bodies with a clock that the test sets. */
function withClock() {
  const clock = { nowMs: 1_000_000 };
  return { clock, bodies: new BodyReader(() => clock.nowMs) };
}

/** Starts to read bodies that stay incomplete. */
function holdArriving(bodies: BodyReader, bytes: number): void {
  for (let left = bytes; left > 0; left -= BODY_BYTES_MAX) {
    const length = Math.min(left, BODY_BYTES_MAX);
    bodies.read(requestOf(streamOf([], "hangs").stream, length), () => {});
  }
}

/** Reads a body and uses it until it is released. */
async function holdUsed(bodies: BodyReader, request: Request) {
  const started = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const done = bodies.read(request, async () => {
    started.resolve();
    await released.promise;
  });
  await Promise.race([started.promise, done.then(() => assert.fail())]);
  return async () => {
    released.resolve();
    await done;
  };
}

async function assertRefused(
  outcome: Promise<unknown>,
  name: ErrorName,
): Promise<void> {
  const refusal = await outcome;
  assert.ok(refusal instanceof ApiError, "accepted");
  assert.equal(refusal.name, name);
}

for (const [kind, requestWith] of KINDS) {
  Deno.test(`a body ${kind} is held until it has been used`, async () => {
    const bodies = new BodyReader();
    for (const length of [0, 60, BODY_BYTES_MAX]) {
      const release = await holdUsed(bodies, requestWith("x".repeat(length)));
      assert.equal(bodies.reservedBytes, length);
      await release();
      assert.equal(bodies.reservedBytes, 0);
    }
    const bug = new Error("a bug of this test");
    const read = bodies.read(requestWith("{}"), () => Promise.reject(bug));
    await assert.rejects(read, bug);
    assert.equal(bodies.reservedBytes, 0);
  });

  Deno.test(`read() refuses a body ${kind} above BODIES_RESERVED_BYTES_MAX, of arriving and used bodies together, and accepts it once another is released`, async () => {
    const bodies = new BodyReader();
    const release = await holdUsed(bodies, requestOf("ab", 2));
    holdArriving(bodies, BODIES_RESERVED_BYTES_MAX - 5);
    assert.equal(bodies.reservedBytes, BODIES_RESERVED_BYTES_MAX - 3);

    const use = (text: string) => text;
    // Above, at and below the limit.
    await assertRefused(bodies.read(requestWith("xxxx"), use), "queueFull");
    assert.equal(bodies.reservedBytes, BODIES_RESERVED_BYTES_MAX - 3);
    for (const text of ["xxx", "xx"]) {
      assert.equal(await bodies.read(requestWith(text), use), text);
    }
    holdArriving(bodies, 3);
    assert.equal(bodies.reservedBytes, BODIES_RESERVED_BYTES_MAX);
    assert.equal(await bodies.read(requestWith(""), use), "");
    await release();
    assert.equal(await bodies.read(requestWith("xx"), use), "xx");
    assert.equal(bodies.reservedBytes, BODIES_RESERVED_BYTES_MAX - 2);
  });
}

for (const length of [undefined, 100]) {
  const kind = length === undefined ? "in chunks" : "with a Content-Length";

  Deno.test(`expire() refuses a body ${kind} at its deadline, not before`, async () => {
    const { clock, bodies } = withClock();
    const { stream, exhausted } = streamOf(["{"], "hangs");
    let isRefused = false;
    const read = bodies.read(requestOf(stream, length), () => {})
      .finally(() => isRefused = true);
    await exhausted;
    const held = bodies.reservedBytes;
    assert.equal(held, length ?? 1);

    clock.nowMs += BODY_MS_MAX - 1;
    bodies.expire();
    // Another read passes through the same turns.
    await bodies.read(requestOf(""), () => {});
    assert.equal(isRefused, false);
    assert.equal(bodies.reservedBytes, held);
    clock.nowMs += 1;
    bodies.expire();
    await assertRefused(read, "bodyTimedOut");
    assert.equal(bodies.reservedBytes, 0);
  });
}

Deno.test("a body that trickles in does not extend its deadline", async () => {
  const { clock, bodies } = withClock();
  const { stream, exhausted } = streamOf(
    function* () {
      for (let i = 0; i < 9; i++) {
        clock.nowMs += BODY_MS_MAX / 10;
        bodies.expire();
        yield Uint8Array.of(0x20);
      }
    }(),
    "hangs",
  );
  const read = bodies.read(requestOf(stream), () => {});
  await exhausted;
  assert.equal(bodies.reservedBytes, 9);
  clock.nowMs += BODY_MS_MAX / 10;
  bodies.expire();
  await assertRefused(read, "bodyTimedOut");
});

Deno.test("expire() and refuseAll() do not change a body that has arrived, nor later ones", async () => {
  const { clock, bodies } = withClock();
  const release = await holdUsed(bodies, requestOf("{}", 2));
  clock.nowMs += BODY_MS_MAX;
  bodies.expire();
  bodies.refuseAll(SHUTTING_DOWN);
  assert.equal(bodies.reservedBytes, 2);
  await release();
  assert.equal(await bodies.read(requestOf("[]", 2), (text) => text), "[]");
});

Deno.test("a refused body is not held, whatever arrives later", async () => {
  const bodies = new BodyReader();
  const { stream, exhausted, send, cancelled } = streamOf(["{"], "hangs");
  const read = bodies.read(requestOf(stream), () => {});
  await exhausted;
  assert.equal(bodies.reservedBytes, 1);
  bodies.refuseAll(SHUTTING_DOWN);
  assert.equal(await read, SHUTTING_DOWN);
  assert.equal(bodies.reservedBytes, 0);
  // The first chunk ends the reading of the body, the second the discarding.
  send(new Uint8Array(1));
  send(new Uint8Array(2 * BODY_DISCARD_BYTES_MAX));
  await cancelled;
  assert.equal(bodies.reservedBytes, 0);
});

Deno.test("a refused body with a Content-Length is neither held nor used when it completes later", async () => {
  const bodies = new BodyReader();
  const { stream, exhausted } = streamOf(["{}"]);
  const read = bodies.read(requestOf(stream, 2), () => assert.fail());
  bodies.refuseAll(SHUTTING_DOWN);
  assert.equal(await read, SHUTTING_DOWN);
  await exhausted;
  assert.equal(bodies.reservedBytes, 0);
});
