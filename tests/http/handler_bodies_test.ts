/** Bodies as they pass through the service; the parser's tests have the rest. */
import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";
import { toBytes } from "../support/wire.ts";

/** Returns a body, with a Content-Length and without one. */
function framings(body: string) {
  const bytes = new Uint8Array(toBytes(body));
  return [bytes, new Blob([bytes]).stream()];
}

for (const character of ["x", "é", "草", "🌱"]) {
  Deno.test(`handle() stores a body of the largest size with ${character} alone in the name`, async () => {
    const empty = '{"id":-7,"name":""}';
    const bytes = toBytes(character).length;
    const name = character.repeat(
      Math.floor((BODY_BYTES_MAX - empty.length) / bytes),
    );
    const body = empty.replace('""', `"${name}"`);
    const padding = " ".repeat(BODY_BYTES_MAX - toBytes(body).length);
    for (const sent of framings(body + padding)) {
      using service = await TestService.start();
      const reply = await service.create(sent);
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.text, JSON.stringify({ name }));
      assert.deepEqual(await service.stored(), [[["plants", -7n], { name }]]);
    }
  });
}

Deno.test("handle() drops members that the description does not name", async () => {
  using service = await TestService.start();
  const body =
    '{"more":{"id":9},"id":7,"__proto__":{"tag":"t"},"name":"a","m":1,"m":2}';
  assert.equal((await service.create(body)).text, '{"name":"a"}');
  assert.deepEqual(await service.stored(), [[["plants", 7n], { name: "a" }]]);
});

for (const headers of [{}, { "content-length": "100" }]) {
  const name = "content-length" in headers ? "with" : "without";
  Deno.test(`handle() refuses a body ${name} a length that ends too early with 40002, and counts a client that left`, async () => {
    using service = await TestService.start();
    const { stream } = streamOf(['{"id":7,"name":"a"}'], "fails");
    assertRefusal(await service.create(stream, { headers }), {
      error: 40002,
      message: "body: expected all of it, got a part",
    });
    assert.deepEqual(await service.stored(), []);
    const { text } = await service.get("/metrics");
    assert.match(text, /_requests_total\{code="499"\} 1\n/);
    assert.match(text, /_requests_total\{code="400"\} 0\n/);
  });
}
