/** Bodies as they pass through the service; the parser's tests have the rest. */
import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { endlessStream, streamOf } from "../support/bodies.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";
import { toBytes } from "../support/wire.ts";

Deno.test("handle() stores a body of the largest size, with and without a Content-Length", async () => {
  const empty = '{"id":-7,"name":"é"}';
  const padding = "é".repeat((BODY_BYTES_MAX - toBytes(empty).length) / 2);
  const name = `é${padding}`;
  const body = empty.replace("é", name).padEnd(BODY_BYTES_MAX - name.length);
  const bytes = new Uint8Array(toBytes(body));
  assert.equal(bytes.length, BODY_BYTES_MAX);
  for (const sent of [bytes, new Blob([bytes]).stream()]) {
    const service = new TestService();
    const reply = await service.create(sent);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.text, JSON.stringify({ name }));
    assert.deepEqual(service.stored(), [[["plants", -7n], { name }]]);
  }
});

Deno.test("handle() refuses a body that ends too early with 40002, and counts a client that left", async () => {
  for (
    const [headers, end] of [
      [{}, "fails"],
      [{ "content-length": "100" }, "fails"],
      // The runtime ends the body of an HTTP/2 stream that is reset.
      [{ "content-length": "20" }, "ends"],
    ] as const
  ) {
    const service = new TestService();
    const { stream } = streamOf(['{"id":7,"name":"a"}'], end);
    assertRefusal(await service.create(stream, { headers }), {
      error: 40002,
      message: "body: expected all of it, got a part",
    });
    assert.deepEqual(service.stored(), []);
    const { text } = await service.get("/metrics");
    assert.match(text, /_requests_total\{code="499"\} 1\n/);
    assert.match(text, /_requests_total\{code="400"\} 0\n/);
  }
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
