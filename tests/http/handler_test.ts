import assert from "node:assert/strict";
import {
  PROBE_MS,
  RECOVERY_MS_MIN,
  UNREADABLE_LOGGED_MAX,
} from "../../src/limits.ts";
import { endlessStream, streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { range } from "../support/plants.ts";
import { replaced } from "../support/replaced.ts";
import { TestService, VALID } from "../support/service.ts";

const OK = '{"status":"ok"}';

const NOT_READY = {
  error: 50303,
  message:
    "the store failed or timed out, so a create would fail: the log of the service says why",
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
  const { text } = await service.get("/metrics");
  assert.match(text, /_creates_total\{outcome="stored"\} 1\n/);
  assert.match(text, /_creates_total\{outcome="replayed"\} 2\n/);
});

Deno.test("handle() replies with 200 only after the commit has returned, and counts the seconds until then", async () => {
  const service = new TestService();
  service.clock.now += 1000;
  service.store.pause();
  let isAnswered = false;
  const reply = service.create(VALID).finally(() => isAnswered = true);
  await service.bodiesArrived(1);
  assert.deepEqual(service.stored(), []);
  assert.equal(isAnswered, false);
  service.clock.now += 250;
  service.store.resume();
  assert.equal((await reply).status, 200);
  assert.equal(service.stored().length, 1);
  const { text } = await service.get("/metrics");
  assert.match(text, /_http_request_duration_seconds_sum 0.25\n/);
});

Deno.test("handle() refuses a body that ends too early with 40002, and counts a client that left", async () => {
  const service = new TestService();
  const { stream } = streamOf(['{"id":7,"name":"a"}'], "fails");
  assertRefusal(await service.create(stream), {
    error: 40002,
    message: "body: expected all of it, got a part",
  });
  assert.deepEqual(service.stored(), []);
  const { text } = await service.get("/metrics");
  assert.match(text, /_requests_total\{code="499"\} 1\n/);
  assert.match(text, /_requests_total\{code="400"\} 0\n/);
});

Deno.test("handle() ends the body of a request that it answers without reading it", async () => {
  const service = new TestService();
  for (
    const [options, status] of [
      [{ headers: { "authorization": "Bearer guess" } }, 401],
      [{ method: "GET", target: "/livez" }, 200],
    ] as const
  ) {
    const { stream, cancelled } = endlessStream(1024);
    assert.equal((await service.create(stream, options)).status, status);
    await cancelled;
  }
});

Deno.test("handle() replies with 50303 that a plant may be stored, and that none is once the store is corrupt", async () => {
  const service = new TestService();
  service.store.problem = "database disk image is malformed";
  const failed = "the store failed or timed out, so";
  assertRefusal(await service.create(VALID), {
    error: 50303,
    message:
      `${failed} the plant may or may not be stored: send the same request again`,
  });
  const { length } = service.store.operations;
  service.store.problem = undefined;
  assertRefusal(await service.create(VALID), {
    error: 50303,
    message: `${failed} nothing was stored: send the same request again`,
  });
  assert.equal(service.store.operations.length, length);
  assert.deepEqual(service.stored(), []);
  const { text } = await service.get("/metrics");
  assert.match(text, /_creates_total\{outcome="failed"\} 2\n/);
});

Deno.test("handle() replies with 50303 to creates of an id whose stored value cannot be read, and logs each id once, up to UNREADABLE_LOGGED_MAX", async () => {
  const service = new TestService();
  const ids = range(1n, UNREADABLE_LOGGED_MAX + 1);
  for (const id of [...ids, ...ids]) {
    service.store.plants.set(id, { name: "Ficus" });
    service.store.unreadable = id;
    assertRefusal(await service.create(`{"id":${id},"name":"Fern"}`), {
      error: 50303,
      message:
        "the store failed or timed out, so nothing was stored: the plant with this id cannot be read: ask the operator",
    });
  }
  const unreadable =
    / error: the plant (\d+) cannot be read.*: upgrade, or restore/;
  const logged = service.logged.map((entry) => unreadable.exec(entry)?.[1]);
  assert.deepEqual(logged, ids.slice(0, -1).map(String));
  const { text } = await service.get("/metrics");
  const counted = new RegExp(
    `_creates_total{outcome="unreadable"} ${2 * ids.length}\n`,
  );
  assert.match(text, counted);
  assert.match(text, /\nplant_store_up 1\n/);
});

/** Makes the next call of a method fail. */
function breakOnce<Name extends string>(
  target: Record<Name, unknown>,
  name: Name,
): Disposable {
  const once = replaced(target, name, () => {
    once[Symbol.dispose]();
    throw new TypeError("a bug of this test");
  });
  return once;
}

Deno.test("handle() replies with 500 to a bug in a HEAD, or in its reply, without a body, and logs it", async () => {
  for (
    const insertBug of [
      () => breakOnce(Response, "json"),
      () => breakOnce(Response.prototype, "bytes"),
    ]
  ) {
    const service = new TestService();
    using _ = insertBug();
    const { status, text } = await service.get("/livez", { method: "HEAD" });
    assert.deepEqual([status, text], [500, ""]);
    assert.match(service.logged.join(), /internal error .*\nTypeError: a bug /);
    const metrics = await service.get("/metrics");
    assert.match(metrics.text, /_requests_total\{code="500"\} 1\n/);
    await service.handler.drain();
  }
});

Deno.test("handle() replies with 50001 to a bug, logs it under the id in the message, and counts the request once", async () => {
  const service = new TestService();
  using _ = breakOnce(Response, "json");
  const reply = await service.create(VALID, { target: "/ferns" });
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
  assert.deepEqual([...counts], ['_requests_total{code="500"} 1']);
  assert.match(text, /_http_requests_running 1\n/);
  await service.handler.drain();
});

Deno.test("handle() replies to /readyz with 503 while the store fails, and with 200 when it works again", async () => {
  const service = new TestService();
  async function assertUp(isUp: boolean): Promise<void> {
    const reply = await service.get("/readyz");
    if (isUp) assert.equal(reply.text, OK);
    else assertRefusal(reply, NOT_READY);
    const head = await service.get("/readyz", { method: "HEAD" });
    assert.deepEqual([head.status, head.text], [reply.status, ""]);
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

Deno.test("handle() replies to /readyz with the error of the store, also during a shutdown", async () => {
  const service = new TestService();
  service.store.problem = "disk I/O error";
  await service.handler.drain();
  assertRefusal(await service.get("/readyz"), NOT_READY);
});
