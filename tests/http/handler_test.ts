import assert from "node:assert/strict";
import { PROBE_MS, RECOVERY_MS_MIN } from "../../src/store/health.ts";
import { streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService, VALID } from "../support/service.ts";
import { settled } from "../support/waiting.ts";

const OK = '{"status":"ok"}';

const NOT_READY = {
  error: 50304,
  message:
    "the store fails, so a create would not be stored now: the log of the service says why",
};

Deno.test("handle() replies to a create, and to the same one again however it is spelled, with its name and tag", async () => {
  const service = new TestService();
  for (
    const body of [
      '{"id":7,"name":"Monstera","tag":"climber"}',
      '{"id":7,"name":"Monstera","tag":"climber"}',
      '{"tag":"climber", "more":[], "name":"\\u004donstera", "id":0.7e1}',
    ]
  ) {
    const { status, headers, text } = await service.create(body);
    assert.equal(status, 200, text);
    assert.deepEqual([...headers], [["content-type", "application/json"]]);
    assert.equal(text, '{"name":"Monstera","tag":"climber"}');
  }
  const stored = { name: "Monstera", tag: "climber" };
  assert.deepEqual(service.stored(), [[["plants", 7n], stored]]);
});

Deno.test("handle() counts each create by its outcome, each request by its method and status, and observes creates only", async () => {
  const service = new TestService();
  for (const name of ["a", "a", "a", "b", "b"]) {
    await service.create(`{"id":7,"name":"${name}"}`);
  }
  service.store.problem = "disk I/O error";
  await service.create(VALID);
  await service.get("/readyz");
  await service.get("/livez", { method: "HEAD" });
  await service.get("/livez", { method: "FOO" });
  const { text } = await service.get("/metrics");
  const counts = text.matchAll(/_(?:creates|requests)_total\{(.*)\} (.*)\n/g);
  assert.deepEqual(
    Array.from(
      counts,
      ([, labels = "", count]) =>
        `${labels.replaceAll(/\w+=|"/g, "")}: ${count}`,
    )
      .filter((line) => !line.endsWith(": 0")),
    [
      "200,post: 3",
      "409,post: 2",
      "503,post: 1",
      "503,get: 1",
      "200,head: 1",
      "405,unknown: 1",
      // With that of the metrics.
      "c7355b97: 7",
      "stored: 1",
      "replayed: 2",
      "conflict: 2",
      "failed: 1",
    ],
  );
  assert.match(text, /_http_request_duration_seconds_count 6\n/);
});

Deno.test("handle() replies with 200 only after the commit has returned, and counts the seconds until then", async () => {
  const service = new TestService();
  service.clock.now += 1000;
  service.store.pause();
  let isAnswered = false;
  const reply = service.create(VALID).finally(() => isAnswered = true);
  await settled();
  assert.deepEqual(service.stored(), []);
  assert.equal(isAnswered, false);
  service.clock.now += 250;
  service.store.resume();
  assert.equal((await reply).status, 200);
  assert.equal(service.stored().length, 1);
  const { text } = await service.get("/metrics");
  assert.match(text, /_http_request_duration_seconds_sum 0.25\n/);
});

Deno.test("handle() refuses a body that ends too early with 40002", async () => {
  const service = new TestService();
  for (const length of [[], "100"]) {
    const headers = { "content-length": length };
    const { stream } = streamOf(['{"id":7,"name":"a"}'], "fails");
    assertRefusal(await service.create(stream, { headers }), {
      error: 40002,
      message: "body: expected all of it, got a part",
    });
  }
  assert.deepEqual(service.stored(), []);
  assert.deepEqual(service.logged, []);
});

Deno.test("handle() replies with 50001 to a bug, logs it under the id in the message, and counts the request once", async () => {
  const service = new TestService();
  const reply = await service.createWithBug();
  const [entry = "", ...others] = service.logged;
  const [, id] =
    /internal error (\S+)\nTypeError: a bug of this test\n/.exec(entry) ?? [];
  assert.ok(id !== undefined, entry);
  assert.deepEqual(others, []);
  const message = `internal error, logged as ${id}`;
  assertRefusal(reply, { error: 50001, message });
  assert.deepEqual(service.stored(), []);
  const { text } = await service.get("/metrics");
  const counts = text.match(/_requests_total\{code=.*\} [^0].*/g) ?? [];
  assert.deepEqual([...counts], [
    '_requests_total{code="500",method="post"} 1',
  ]);
  assert.match(text, /_creates_running 0\n/);
  await service.drain();
});

Deno.test("handle() replies to /readyz with 503 while the store fails, and with 200 when it works again", async () => {
  const service = new TestService();
  async function assertUp(isUp: boolean): Promise<void> {
    const reply = await service.get("/readyz");
    if (isUp) assert.equal(reply.text, OK);
    else assertRefusal(reply, NOT_READY);
    const head = await service.get("/readyz", { method: "HEAD" });
    assert.deepEqual([head.status, head.text], [reply.status, ""]);
    for (const { headers } of [reply, head]) {
      assert.equal(headers.get("cache-control"), "no-store");
    }
    const { text } = await service.get("/metrics");
    assert.ok(text.includes(`\nplant_store_up ${isUp ? 1 : 0}\n`), text);
  }
  await assertUp(true);
  service.store.problem = "database or disk is full";
  service.clock.now += PROBE_MS;
  await assertUp(false);
  assert.equal((await service.get("/livez")).text, OK);

  // No create has arrived meanwhile.
  service.store.problem = undefined;
  service.clock.now += RECOVERY_MS_MIN;
  await assertUp(true);
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() replies to /readyz with 50304 while the store fails, also during a shutdown", async () => {
  const service = new TestService();
  service.store.problem = "disk I/O error";
  await service.drain();
  assertRefusal(await service.get("/readyz"), NOT_READY);
});
