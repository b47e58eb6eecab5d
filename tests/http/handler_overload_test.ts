import assert from "node:assert/strict";
import {
  BODIES_HELD_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_MS_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  QUEUE_MS_MAX,
} from "../../src/limits.ts";
import { eventually } from "../support/load.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";
import type { Reply } from "../support/wire.ts";

const VALID = '{"id":7,"name":"Fern"}';

/** Time limit for steps that take milliseconds. */
const SOON = { everyMs: 1 };

const QUEUE_FULL = {
  error: 50302,
  message: "the service is busy: send the same request again",
};
const STORE_FAILED = {
  error: 50303,
  message:
    "the store failed or timed out, so the plant may or may not be stored: send the same request again",
};
const TIMED_OUT = {
  error: 40801,
  message: `body: expected all of it within ${BODY_MS_MAX / 1000} s`,
};

/** Sends creates of different ids. */
function createAll(service: TestService, count: number): Promise<Reply>[] {
  return Array.from(
    { length: count },
    (_, i) => service.create(`{"id":${1_000 + i},"name":"Fern"}`),
  );
}

/** Returns the value of a gauge. */
async function gauge(service: TestService, name: string): Promise<number> {
  const { text } = await service.get("/metrics");
  return Number(new RegExp(`^plant_store_${name} (.*)$`, "m").exec(text)?.[1]);
}

Deno.test("handle() refuses creates with 50302 while CREATES_WAITING_MAX wait, and accepts them again afterwards", async () => {
  using service = await TestService.start();
  service.store.pause();
  const waiting = createAll(service, CREATES_WAITING_MAX);
  await service.createsWaiting(CREATES_WAITING_MAX);
  assert.equal(await gauge(service, "creates_waiting"), CREATES_WAITING_MAX);
  for (let i = 0; i < 3; i++) {
    assertRefusal(await service.create(VALID), QUEUE_FULL);
  }
  // Other requests are not affected.
  assert.equal((await service.get("/livez")).status, 200);
  assert.equal((await service.create("{")).status, 400);

  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  assert.equal((await service.stored()).length, CREATES_WAITING_MAX);
  assert.equal(await gauge(service, "creates_waiting"), 0);
  assert.equal((await service.create(VALID)).status, 200);
});

Deno.test("handle() refuses creates with 50302 when the oldest queued one has waited longer than QUEUE_MS_MAX", async () => {
  using service = await TestService.start();
  service.store.pause();
  const first = service.create('{"id":1,"name":"in flight"}');
  await service.createsWaiting(1);
  const second = service.create('{"id":2,"name":"queued"}');
  await service.createsWaiting(2);
  service.clock.advance(QUEUE_MS_MAX);
  const third = service.create('{"id":3,"name":"just in time"}');
  await service.createsWaiting(3);
  service.clock.advance(1);
  assertRefusal(await service.create(VALID), QUEUE_FULL);

  service.store.resume();
  for (const { status } of await Promise.all([first, second, third])) {
    assert.equal(status, 200);
  }
  assert.equal((await service.stored()).length, 3);
  assert.equal((await service.create(VALID)).status, 200);
});

Deno.test("handle() refuses creates with 50302 when the store has answered no commit for longer than QUEUE_MS_MAX", async () => {
  using service = await TestService.start();
  service.store.pause();
  const first = service.create('{"id":1,"name":"in flight"}');
  await service.createsWaiting(1);
  service.clock.advance(QUEUE_MS_MAX + 1);
  assertRefusal(await service.create(VALID), QUEUE_FULL);
  service.store.resume();
  assert.equal((await first).status, 200);
  assert.equal((await service.stored()).length, 1);
});

for (
  const [name, headers, part] of [
    ["declared", { "content-length": `${BODY_BYTES_MAX}` }, ""],
    ["received", {}, " ".repeat(BODY_BYTES_MAX)],
  ] as const
) {
  Deno.test(`handle() refuses creates with 50302 while BODIES_HELD_BYTES_MAX of arriving bodies are ${name}`, async () => {
    using service = await TestService.start();
    const count = BODIES_HELD_BYTES_MAX / BODY_BYTES_MAX;
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
      (bytes) => bytes === BODIES_HELD_BYTES_MAX,
      () => gauge(service, "bodies_held_bytes"),
      SOON,
    );
    assertRefusal(await service.create(VALID), QUEUE_FULL);
    assertRefusal(
      await service.create(new Blob([VALID]).stream()),
      QUEUE_FULL,
    );
    const { text } = await service.get("/metrics");
    assert.match(text, /_creates_total\{outcome="queue_full"\} 2\n/);

    service.clock.advance(BODY_MS_MAX);
    service.handler.expire();
    for (const reply of await Promise.all(arriving)) {
      assertRefusal(reply, TIMED_OUT);
    }
    assert.deepEqual(await service.stored(), []);
    assert.equal(await gauge(service, "bodies_held_bytes"), 0);
    assert.equal((await service.create(VALID)).status, 200);
  });
}

Deno.test("handle() counts the bodies of waiting creates as held until their replies", async () => {
  using service = await TestService.start();
  service.store.pause();
  const count = 20;
  const waiting = Array.from({ length: count }, (_, i) => {
    const body = `{"id":${100 + i},"name":"Fern"}`.padEnd(BODY_BYTES_MAX);
    return service.create(i % 2 === 0 ? body : new Blob([body]).stream());
  });
  await service.createsWaiting(count);
  const heldBytes = await gauge(service, "bodies_held_bytes");
  assert.equal(heldBytes, count * BODY_BYTES_MAX);
  service.store.resume();
  for (const { status } of await Promise.all(waiting)) {
    assert.equal(status, 200);
  }
  assert.equal(await gauge(service, "bodies_held_bytes"), 0);
});

Deno.test("handle() holds no bytes of refused bodies", async () => {
  using service = await TestService.start();
  const large = " ".repeat(BODY_BYTES_MAX + 1);
  for (
    const body of ["{", "[]", large, new Blob([large]).stream()]
  ) {
    assert.notEqual((await service.create(body)).status, 200);
    assert.equal(await gauge(service, "bodies_held_bytes"), 0);
  }
});

Deno.test("handle() replies with 50303 while the store fails, and with 200 to the same create when it has recovered", async () => {
  using service = await TestService.start();
  service.store.problem = "database or disk is full";
  for (let i = 0; i < 3; i++) {
    // The problem is for operators only.
    const secrets = ["disk is full"];
    assertRefusal(await service.create(VALID), STORE_FAILED, secrets);
  }
  assert.deepEqual(await service.stored(), []);
  service.store.problem = undefined;
  assert.equal((await service.create(VALID)).status, 200);
  assert.equal((await service.stored()).length, 1);
});

Deno.test("handle() replies with 50303 when the store has not answered within COMMIT_MS_MAX, and with 200 to the same create later", async () => {
  using service = await TestService.start();
  service.store.pause();
  const reply = service.create(VALID);
  await service.createsWaiting(1);
  service.clock.advance(COMMIT_MS_MAX);
  service.committer.expire();
  assertRefusal(await reply, STORE_FAILED);
  // The commit lands late; until it does, the store counts as overloaded.
  service.store.resume();
  await eventually(
    ({ status }) => status === 200,
    () => service.create(VALID),
    SOON,
  );
  assert.deepEqual(
    await service.stored(),
    [[["plants", 7n], { name: "Fern" }]],
  );
});
