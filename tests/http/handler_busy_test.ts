import assert from "node:assert/strict";
import {
  BODY_MS_MAX,
  BUSY_BODY_MS_MAX,
  CREATES_RUNNING_MAX,
  QUIET_MS,
} from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { ROUTES, TestService, VALID } from "../support/service.ts";
import { settled } from "../support/waiting.ts";

/** Asserts the number of creates that are running. */
async function assertRunning(
  service: TestService,
  running: number,
): Promise<void> {
  const { text } = await service.get("/metrics");
  assert.match(text, new RegExp(`_creates_running ${running}\n`));
}

Deno.test("handle() accepts CREATES_RUNNING_MAX POST requests, whatever they wait for, and refuses the next one with 50302", async () => {
  const service = new TestService();
  service.store.pause();
  const bodies = [1, 2, 3].map((id) => `{"id":${id},"name":"Fern"}`);
  const waiting = bodies.map((body) => service.create(body));
  const arriving = service.startCreates(CREATES_RUNNING_MAX - waiting.length);
  await settled();
  await assertRunning(service, CREATES_RUNNING_MAX);
  const refused = '{"id":4,"name":"Fern"}';
  assertRefusal(await service.create(refused), { error: 50302 });

  // As many places are free as requests were answered.
  service.store.resume();
  for (const it of await Promise.all(waiting)) assert.equal(it.status, 200);
  assert.equal((await service.create(VALID)).status, 200);
  arriving.push(...service.startCreates(waiting.length));
  assertRefusal(await service.create(refused), { error: 50302 });

  service.sweepAfter(BODY_MS_MAX);
  for (const reply of await Promise.all(arriving)) {
    assertRefusal(reply, { error: 40801 });
  }
  await assertRunning(service, 0);
  assert.deepEqual(
    service.stored().map(([[, id]]) => id),
    [1n, 2n, 3n, 7n],
  );
});

Deno.test("sweep() refuses bodies that are late for a busy service with 40801, and admits other creates again", async () => {
  const service = new TestService();
  const arriving = service.startCreates(CREATES_RUNNING_MAX - 1);
  // Not busy yet, so a body may be slow.
  service.sweepAfter(BUSY_BODY_MS_MAX - 1);
  arriving.push(...service.startCreates(1));
  service.sweepAfter(0);
  assertRefusal(await service.create(VALID), { error: 50302 });

  service.sweepAfter(1);
  const last = arriving.pop();
  for (const reply of await Promise.all(arriving)) {
    const message = "body: expected all of it within 1 s";
    assertRefusal(reply, { error: 40801, message });
  }
  assert.equal((await service.create(VALID)).status, 200);

  service.sweepAfter(BODY_MS_MAX - 2);
  await assertRunning(service, 1);
  service.sweepAfter(1);
  const message = "body: expected all of it within 10 s";
  assertRefusal(await last, { error: 40801, message });
  assert.equal(service.stored().length, 1);
});

Deno.test("handle() accepts creates while any number of other requests are running", async () => {
  const service = new TestService();
  service.store.pause();
  const length = 2 * CREATES_RUNNING_MAX;
  const probes = Array.from({ length }, () => service.get("/readyz"));
  const created = service.create(VALID);
  await settled();
  service.store.resume();
  assert.equal((await created).status, 200);
  for (const it of await Promise.all(probes)) assert.equal(it.status, 200);
  await assertRunning(service, 0);
});

Deno.test("handle() counts a refused create as a request by its status, neither as a create nor in the durations", async () => {
  const service = new TestService();
  service.becomeBusy();
  for (let i = 0; i < 2; i++) {
    assertRefusal(await service.create(VALID), { error: 50302 });
  }
  const { text } = await service.get("/metrics");
  assert.match(text, /_requests_total\{code="503",method="post"\} 2\n/);
  assert.match(text, /_http_request_duration_seconds_count 0\n/);
  assert.doesNotMatch(text, /_creates_total\{.*\} [^0]/);
  assert.deepEqual(service.stored(), []);
});

Deno.test("sweep() logs the end of a time in which creates were refused", async () => {
  const service = new TestService();
  service.becomeBusy();
  for (let i = 0; i < 2; i++) await service.create(VALID);
  assert.match(service.logged[0] ?? "", /busy: 4096 creates are running/);
  service.sweepAfter(QUIET_MS);
  assert.match(service.logged[1] ?? "", /no longer busy: 2 creates were/);
  assert.equal(service.logged.length, 2);
});

Deno.test("handle() answers every other method as before while the service is busy", async () => {
  const service = new TestService();
  service.becomeBusy();
  for (const { path, methods } of ROUTES) {
    for (const method of ["GET", "HEAD", "DELETE"]) {
      const reply = await service.get(path, { method });
      const isAllowed = methods.includes(method);
      assert.equal(reply.status, isAllowed ? 200 : 405, `${method} ${path}`);
    }
  }
});
