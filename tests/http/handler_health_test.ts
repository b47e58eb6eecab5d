import assert from "node:assert/strict";
import { PROBE_MS, RECOVERY_MS_MIN } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";

const VALID = '{"id":7,"name":"Fern"}';
const OK = '{"status":"ok"}';

const NOT_READY = {
  error: 50303,
  message:
    "the store failed or timed out, so a create would fail: the log of the service says why",
};

/** Returns whether the metrics report a healthy store. */
async function isUp(service: TestService): Promise<boolean> {
  const { text } = await service.get("/metrics");
  return /^plant_store_up 1$/m.test(text);
}

for (const method of ["GET", "HEAD"]) {
  Deno.test(`handle() replies to ${method} /readyz with 503 while the store fails, and with 200 when it works again`, async () => {
    const service = new TestService();
    assert.equal((await service.get("/readyz", { method })).text, OK);
    assert.equal(await isUp(service), true);

    service.store.problem = "database or disk is full";
    service.clock.advance(PROBE_MS);
    for (let i = 0; i < 2; i++) {
      assertRefusal(await service.get("/readyz", { method }), NOT_READY);
    }
    assert.equal(await isUp(service), false);
    assert.equal((await service.get("/livez", { method })).text, OK);

    // No create has arrived meanwhile.
    service.store.problem = undefined;
    service.clock.advance(RECOVERY_MS_MIN);
    assert.equal((await service.get("/readyz", { method })).text, OK);
    assert.equal(await isUp(service), true);
    assert.deepEqual(service.stored(), []);
  });
}

Deno.test("handle() replies to /readyz with 503 after a failed create until a write succeeds RECOVERY_MS_MIN later", async () => {
  const service = new TestService();
  service.store.problem = "disk I/O error";
  assert.equal((await service.create(VALID)).status, 503);
  service.store.problem = undefined;
  // Others may still fail, as on a disk that is nearly full.
  assert.equal((await service.create(VALID)).status, 200);
  assertRefusal(await service.get("/readyz"), NOT_READY);
  assert.equal(await isUp(service), false);
  service.clock.advance(RECOVERY_MS_MIN);
  assert.equal((await service.get("/readyz")).status, 200);

  service.store.problem = "disk I/O error";
  assert.equal((await service.create(VALID)).status, 503);
  service.store.problem = undefined;
  service.clock.advance(RECOVERY_MS_MIN);
  assert.equal(await isUp(service), false);
  assert.equal((await service.create('{"id":8,"name":"Ficus"}')).status, 200);
  assert.equal(await isUp(service), true);
});

Deno.test("handle() replies to /readyz with 503 because of the store before it does so because of a shutdown", async () => {
  const service = new TestService();
  service.store.problem = "disk I/O error";
  await service.handler.drain();
  assertRefusal(await service.get("/readyz"), NOT_READY);
});
