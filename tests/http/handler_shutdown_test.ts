import assert from "node:assert/strict";
import { range } from "../support/plants.ts";
import { assertRefusal } from "../support/refusals.ts";
import { ROUTES, TestService, VALID } from "../support/service.ts";
import { settled } from "../support/waiting.ts";

const SHUTTING_DOWN = { error: 50301 };

for (const count of [1, 3]) {
  Deno.test(`drain() resolves when all running creates have their replies, and not before: ${count}`, async () => {
    const service = new TestService();
    service.store.pause();
    const running = range(1n, count)
      .map((id) => service.create(`{"id":${id},"name":"Fern"}`));
    await settled();
    let isDrained = false;
    const drained = service.drain().then(() => isDrained = true);
    // Replies to later requests do not resolve the drain.
    assertRefusal(await service.create(VALID), SHUTTING_DOWN);
    assert.equal((await service.get("/livez")).status, 200);
    assert.equal(isDrained, false);

    service.store.resume();
    for (const it of await Promise.all(running)) assert.equal(it.status, 200);
    await drained;
    assert.equal(service.stored().length, count);
  });
}

Deno.test("drain() refuses a body that is still arriving with 50301", async () => {
  const service = new TestService();
  const arriving = service.create(new ReadableStream());
  await service.drain();
  assertRefusal(await arriving, SHUTTING_DOWN);
  assert.deepEqual(service.stored(), []);
});

Deno.test("handle() serves every GET path but /readyz after drain()", async () => {
  const service = new TestService();
  await service.drain();
  for (const { path, methods } of ROUTES) {
    if (!methods.includes("GET")) continue;
    const reply = await service.get(path);
    if (path === "/readyz") assertRefusal(reply, SHUTTING_DOWN);
    else assert.equal(reply.status, 200, path);
  }
  assertRefusal(await service.get("/ferns"), { error: 40401 });
});
