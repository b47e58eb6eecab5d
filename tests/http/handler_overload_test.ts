import assert from "node:assert/strict";
import { RequestHandler } from "../../src/http/handler.ts";
import {
  BODIES_RESERVED_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
} from "../../src/limits.ts";
import { endlessStream, streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";

const VALID = '{"id":7,"name":"Fern"}';

/** Asserts the number of waiting creates, and of bytes of bodies. */
async function assertHeld(
  service: TestService,
  creates: number,
  bytes: number,
): Promise<void> {
  const { text } = await service.get("/metrics");
  assert.match(text, new RegExp(`_creates_waiting ${creates}\n`));
  assert.match(text, new RegExp(`_bodies_held_bytes ${bytes}\n`));
}

Deno.test("handle() refuses creates with 50302 while BODIES_RESERVED_BYTES_MAX of bodies are arriving", async () => {
  const service = new TestService();
  const headers = { "content-length": `${BODY_BYTES_MAX}` };
  const count = BODIES_RESERVED_BYTES_MAX / BODY_BYTES_MAX;
  const arriving = Array.from(
    { length: count },
    () => service.create(new ReadableStream(), { headers }),
  );
  await assertHeld(service, 0, BODIES_RESERVED_BYTES_MAX);
  for (const body of [VALID, new Blob([VALID]).stream()]) {
    assertRefusal(await service.create(body), { error: 50302 });
  }
  const { text } = await service.get("/metrics");
  assert.match(text, /_creates_total\{outcome="queue_full"\} 2\n/);

  service.clock.now += BODY_MS_MAX;
  service.handler.expire();
  for (const reply of await Promise.all(arriving)) {
    assertRefusal(reply, { error: 40801 });
  }
  assert.deepEqual(service.stored(), []);
  await assertHeld(service, 0, 0);
  assert.equal((await service.create(VALID)).status, 200);
});

Deno.test("handle() counts the bodies of waiting creates as held until their replies", async () => {
  const service = new TestService();
  service.store.pause();
  const waiting = [1, 2, 3].map((id) => {
    const body = `{"id":${id},"name":"Fern"}`.padEnd(BODY_BYTES_MAX);
    return service.create(id === 1 ? body : new Blob([body]).stream());
  });
  await service.createsWaiting(3);
  await assertHeld(service, 3, 3 * BODY_BYTES_MAX);
  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  await assertHeld(service, 0, 0);
});

Deno.test("handle() answers every other method as before while the service is busy", async () => {
  const service = new TestService();
  await service.becomeBusy();
  for (const { path, methods } of RequestHandler.ROUTES) {
    for (const method of ["GET", "HEAD", "DELETE"]) {
      const reply = await service.get(path, { method });
      const isAllowed = methods.includes(method);
      assert.equal(reply.status, isAllowed ? 200 : 405, `${method} ${path}`);
    }
  }
});

Deno.test("handle() refuses creates because of a shutdown rather than because the service is busy", async () => {
  const service = new TestService();
  await service.becomeBusy();
  service.handler.drain();
  assertRefusal(await service.create(VALID), { error: 50301 });
});

Deno.test("handle() discards a bounded part of a body while the service is busy, unless it is short", async () => {
  const service = new TestService();
  await service.becomeBusy();
  const endless = endlessStream(1024);
  assertRefusal(await service.create(endless.stream), { error: 50302 });
  await endless.cancelled;
  assert.equal(endless.readBytes(), BODY_DISCARD_BYTES_MAX);
  const short = streamOf(["{}"]);
  const headers = { "content-length": "2" };
  const reply = await service.create(short.stream, { headers });
  assertRefusal(reply, { error: 50302 });
  assert.equal(short.readBytes(), 0);
});
