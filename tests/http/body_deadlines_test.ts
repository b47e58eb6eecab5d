import assert from "node:assert/strict";
import { ApiError, type ErrorName } from "../../src/api_errors.ts";
import { BodyReader } from "../../src/http/body.ts";
import { bodyRequest, streamOf } from "../support/bodies.ts";
import { FakeClock } from "../support/fake_clock.ts";

const TIMEOUT_MS = 10_000;

/** Returns a reader of bodies with a clock that the test sets. */
function setUp() {
  const clock = new FakeClock();
  clock.now = 1_000_000;
  return { clock, bodies: new BodyReader({ clock: clock.read }) };
}

async function assertRefused(
  outcome: Promise<Uint8Array | ApiError>,
  name: ErrorName,
): Promise<void> {
  const refusal = await outcome;
  assert.ok(refusal instanceof ApiError, "accepted");
  assert.equal(refusal.name, name);
}

for (const length of [undefined, 100]) {
  const kind = length === undefined ? "in chunks" : "with a Content-Length";

  Deno.test(`expire() refuses a body ${kind} at its deadline, not before`, async () => {
    const { clock, bodies } = setUp();
    const { stream, exhausted } = streamOf(["{"], "hangs");
    let isRefused = false;
    const read = bodies.read(bodyRequest(stream, length))
      .finally(() => isRefused = true);
    await exhausted;

    clock.now += TIMEOUT_MS - 1;
    bodies.expire(TIMEOUT_MS);
    // Another read passes through the same turns.
    await bodies.read(bodyRequest(""));
    assert.equal(isRefused, false);
    clock.now += 1;
    bodies.expire(TIMEOUT_MS);
    await assertRefused(read, "bodyTimedOut");
  });
}

Deno.test("a body that trickles in does not extend its deadline", async () => {
  const { clock, bodies } = setUp();
  const { stream, exhausted } = streamOf(
    function* () {
      for (let i = 0; i < 9; i++) {
        clock.now += TIMEOUT_MS / 10;
        bodies.expire(TIMEOUT_MS);
        yield Uint8Array.of(0x20);
      }
    }(),
    "hangs",
  );
  const read = bodies.read(bodyRequest(stream));
  await exhausted;
  clock.now += TIMEOUT_MS / 10;
  bodies.expire(TIMEOUT_MS);
  await assertRefused(read, "bodyTimedOut");
});

Deno.test("expire() and refuseAll() do not change a body that has arrived, nor later ones", async () => {
  const { clock, bodies } = setUp();
  const encoder = new TextEncoder();
  const { stream, exhausted } = streamOf(["{}"]);
  const read = bodies.read(bodyRequest(stream, 2));
  await exhausted;
  assert.deepEqual(await read, encoder.encode("{}"));
  clock.now += TIMEOUT_MS;
  bodies.expire(TIMEOUT_MS);
  bodies.refuseAll();
  const later = await bodies.read(bodyRequest("[]", 2));
  assert.deepEqual(later, encoder.encode("[]"));
});

Deno.test("a refused body is not received any further", async () => {
  const { bodies } = setUp();
  const { stream, exhausted, send, cancelled } = streamOf(["{"], "hangs");
  const read = bodies.read(bodyRequest(stream));
  await exhausted;
  bodies.refuseAll();
  await assertRefused(read, "shuttingDown");
  send(new Uint8Array(1));
  await cancelled;
});
