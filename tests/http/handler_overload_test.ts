import assert from "node:assert/strict";
import {
  BODIES_RESERVED_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
} from "../../src/limits.ts";
import { eventually } from "../support/load.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";

const VALID = '{"id":7,"name":"Fern"}';

/** Time limit for steps that take milliseconds. */
const SOON = { everyMs: 1 };

/** Returns the value of a gauge. */
async function gauge(service: TestService, name: string): Promise<number> {
  const { text } = await service.get("/metrics");
  return Number(new RegExp(`^plant_store_${name} (.*)$`, "m").exec(text)?.[1]);
}

for (
  const [name, headers, part] of [
    ["declared", { "content-length": `${BODY_BYTES_MAX}` }, ""],
    ["received", {}, " ".repeat(BODY_BYTES_MAX)],
  ] as const
) {
  Deno.test(`handle() refuses creates with 50302 while BODIES_RESERVED_BYTES_MAX of arriving bodies are ${name}`, async () => {
    const service = new TestService();
    const count = BODIES_RESERVED_BYTES_MAX / BODY_BYTES_MAX;
    const bytes = new TextEncoder().encode(part);
    const arriving = Array.from({ length: count }, () => {
      const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
        start(controller) {
          if (bytes.length > 0) controller.enqueue(bytes);
        },
      });
      return service.create(body, { headers });
    });
    await eventually(
      (bytes) => bytes === BODIES_RESERVED_BYTES_MAX,
      () => gauge(service, "bodies_held_bytes"),
      SOON,
    );
    assertRefusal(await service.create(VALID), { error: 50302 });
    assertRefusal(
      await service.create(new Blob([VALID]).stream()),
      { error: 50302 },
    );
    const { text } = await service.get("/metrics");
    assert.match(text, /_creates_total\{outcome="queue_full"\} 2\n/);

    service.clock.advance(BODY_MS_MAX);
    service.handler.expire();
    for (const reply of await Promise.all(arriving)) {
      assertRefusal(reply, { error: 40801 });
    }
    assert.deepEqual(service.stored(), []);
    assert.equal(await gauge(service, "bodies_held_bytes"), 0);
    assert.equal((await service.create(VALID)).status, 200);
  });
}

Deno.test("handle() counts the bodies of waiting creates as held until their replies", async () => {
  const service = new TestService();
  service.store.pause();
  const count = 20;
  const waiting = Array.from({ length: count }, (_, i) => {
    const body = `{"id":${100 + i},"name":"Fern"}`.padEnd(BODY_BYTES_MAX);
    return service.create(i % 2 === 0 ? body : new Blob([body]).stream());
  });
  await service.createsWaiting(count);
  assert.equal(await gauge(service, "creates_waiting"), count);
  const heldBytes = await gauge(service, "bodies_held_bytes");
  assert.equal(heldBytes, count * BODY_BYTES_MAX);
  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  assert.equal(await gauge(service, "creates_waiting"), 0);
  assert.equal(await gauge(service, "bodies_held_bytes"), 0);
});

Deno.test("handle() holds no bytes of refused bodies", async () => {
  const service = new TestService();
  const large = " ".repeat(BODY_BYTES_MAX + 1);
  for (
    const body of ["{", "[]", large, new Blob([large]).stream()]
  ) {
    assert.notEqual((await service.create(body)).status, 200);
    assert.equal(await gauge(service, "bodies_held_bytes"), 0);
  }
});

Deno.test("handle() replies with 50303 while the store fails, and with 200 to the same create when it has recovered", async () => {
  const service = new TestService();
  service.store.problem = "database or disk is full";
  for (let i = 0; i < 3; i++) {
    // The problem is for operators only.
    const secrets = ["disk is full"];
    assertRefusal(await service.create(VALID), { error: 50303 }, secrets);
  }
  assert.deepEqual(service.stored(), []);
  service.store.problem = undefined;
  assert.equal((await service.create(VALID)).status, 200);
  assert.equal(service.stored().length, 1);
});

Deno.test("handle() replies with 50303 when the store has not answered within COMMIT_MS_MAX, and with 200 to the same create later", async () => {
  const service = new TestService();
  service.store.pause();
  const reply = service.create(VALID);
  await service.createsWaiting(1);
  service.clock.advance(COMMIT_MS_MAX);
  service.committer.expire();
  assertRefusal(await reply, { error: 50303 });
  // The commit lands late; until it does, the store counts as overloaded.
  service.store.resume();
  await eventually(
    ({ status }) => status === 200,
    () => service.create(VALID),
    SOON,
  );
  assert.deepEqual(
    service.stored(),
    [[["plants", 7n], { name: "Fern" }]],
  );
});
