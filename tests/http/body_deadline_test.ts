import assert from "node:assert/strict";
import { ErrorReply } from "../../src/errors.ts";
import { BodyReader } from "../../src/http/body.ts";
import { BODY_MS_MAX } from "../../src/limits.ts";
import { requestOf, streamOf } from "../support/bodies.ts";

const SHUTTING_DOWN = new ErrorReply("shuttingDown");

/** Returns a reader of bodies with a clock that the test sets. */
function withClock() {
  const clock = { nowMs: 1_000_000 };
  return { clock, bodies: new BodyReader(() => clock.nowMs) };
}

for (const length of [undefined, 100]) {
  const kind = length === undefined ? "in chunks" : "with a Content-Length";

  Deno.test(`expire() refuses a body ${kind} at its deadline, not before`, async () => {
    const { clock, bodies } = withClock();
    const { stream, exhausted } = streamOf(["{"], "hangs");
    const read = bodies.read(requestOf(stream, length));
    await exhausted;
    const held = bodies.heldBytes;
    assert.ok(held > 0);

    bodies.expire();
    clock.nowMs += BODY_MS_MAX - 1;
    bodies.expire();
    assert.equal(bodies.heldBytes, held);
    clock.nowMs += 1;
    bodies.expire();
    assert.equal(bodies.heldBytes, 0);
    const outcome = await read;
    assert.ok(outcome instanceof ErrorReply, "accepted");
    assert.equal(outcome.name, "bodyTimedOut");
  });

  Deno.test(`refuseAll() refuses a body ${kind} that is arriving`, async () => {
    const { bodies } = withClock();
    const { stream, exhausted } = streamOf(["{"], "hangs");
    const read = bodies.read(requestOf(stream, length));
    await exhausted;
    bodies.refuseAll(SHUTTING_DOWN);
    assert.equal(bodies.heldBytes, 0);
    assert.equal(await read, SHUTTING_DOWN);
  });
}

Deno.test("expire() refuses only the bodies that have reached their deadline", async () => {
  const { clock, bodies } = withClock();
  const early = bodies.read(requestOf(streamOf([], "hangs").stream, 10));
  clock.nowMs += 1;
  const late = bodies.read(requestOf(streamOf([], "hangs").stream, 7));
  clock.nowMs += BODY_MS_MAX - 1;
  bodies.expire();
  assert.equal(bodies.heldBytes, 7);
  assert.ok(await early instanceof ErrorReply);
  clock.nowMs += 1;
  bodies.expire();
  assert.equal(bodies.heldBytes, 0);
  assert.ok(await late instanceof ErrorReply);
});

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
  const read = bodies.read(requestOf(stream));
  await exhausted;
  assert.equal(bodies.heldBytes, 9);
  clock.nowMs += BODY_MS_MAX / 10;
  bodies.expire();
  const outcome = await read;
  assert.ok(outcome instanceof ErrorReply, "accepted");
  assert.equal(outcome.name, "bodyTimedOut");
  assert.equal(bodies.heldBytes, 0);
});

Deno.test("expire() and refuseAll() do not change a body that has arrived", async () => {
  const { clock, bodies } = withClock();
  const body = await bodies.read(requestOf("{}", 2));
  clock.nowMs += BODY_MS_MAX;
  bodies.expire();
  bodies.refuseAll(SHUTTING_DOWN);
  assert.deepEqual(body, { text: "{}", bytes: 2 });
  assert.equal(bodies.heldBytes, 2);
});

Deno.test("read() accepts bodies after expire() and refuseAll()", async () => {
  const { bodies } = withClock();
  bodies.expire();
  bodies.refuseAll(SHUTTING_DOWN);
  const body = await bodies.read(requestOf("[]", 2));
  assert.deepEqual(body, { text: "[]", bytes: 2 });
});
