import assert from "node:assert/strict";
import { WRITE_MS_MAX } from "../src/limits.ts";
import { RECOVERY_MS_MIN } from "../src/store/health.ts";
import { settled } from "./support/waiting.ts";
import { assertRefusal } from "./support/refusals.ts";
import { TestService, VALID } from "./support/service.ts";

const NO_ANSWER = `no answer within ${WRITE_MS_MAX / 1000} s`;

Deno.test("a service reports commits and failures to its metrics and its health", async () => {
  const service = new TestService();
  service.store.problem = "database or disk is full";
  assertRefusal(await service.create(VALID), { error: 50303 });
  assert.deepEqual(service.reported, ["database or disk is full"]);
  service.store.problem = undefined;
  service.clock.now += RECOVERY_MS_MIN;
  service.store.pause();
  const created = service.create(VALID);
  await settled();
  service.clock.now += 500;
  service.store.resume();
  assert.equal((await created).status, 200);
  const { text } = await service.get("/metrics");
  assert.match(text, /_commit_duration_seconds_sum 0.5\n/);
  assert.deepEqual(service.reported, ["database or disk is full", "recovered"]);
});

Deno.test("a service shows the size of a file in /metrics, and none of a server", async () => {
  const service = new TestService();
  const { text } = await service.get("/metrics");
  assert.doesNotMatch(text, /_database_bytes/);
  service.store.databaseBytes = 4096;
  const { text: ofFile } = await service.get("/metrics");
  assert.match(ofFile, /_database_bytes 4096\n/);
});

Deno.test("sweep() fails late creates, and probes a failing store", async () => {
  const service = new TestService();
  service.store.pause();
  const waiting = service.create(VALID);
  await settled();
  service.sweepAfter(WRITE_MS_MAX);
  assertRefusal(await waiting, { error: 50303 });
  assert.deepEqual(service.reported, [NO_ANSWER]);
  service.sweepAfter(RECOVERY_MS_MIN);
  await settled();
  assert.deepEqual(service.reported, [NO_ANSWER, "recovered"]);
});
