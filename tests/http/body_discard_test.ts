import assert from "node:assert/strict";
import { SYSTEM_CLOCK } from "../../src/clock.ts";
import { BodyReader } from "../../src/http/body.ts";
import { BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX } from "../../src/limits.ts";
import { settled } from "../support/fake_store.ts";
import {
  endlessStream,
  requestOf,
  streamOf,
  untouchable,
} from "../support/bodies.ts";

const bodies = new BodyReader(SYSTEM_CLOCK);

Deno.test("discard() reads a bounded part of an endless body", async () => {
  for (const length of [undefined, BODY_BYTES_MAX + 1]) {
    const { stream, cancelled, readBytes } = endlessStream(1024);
    bodies.discard(requestOf(stream, length));
    await cancelled;
    assert.equal(readBytes(), BODY_DISCARD_BYTES_MAX);
  }
});

Deno.test("discard() reads a body below the bound to its end", async () => {
  const { stream, exhausted, readBytes } = streamOf(
    Array(BODY_DISCARD_BYTES_MAX / 1024 - 1).fill(new Uint8Array(1024)),
  );
  bodies.discard(requestOf(stream));
  await exhausted;
  assert.equal(readBytes(), BODY_DISCARD_BYTES_MAX - 1024);
});

Deno.test("discard() lets a reply leave before it cancels the body", async () => {
  const part = new Uint8Array(BODY_DISCARD_BYTES_MAX);
  const { stream, cancelled } = streamOf([part], "hangs");
  let isCancelled = false;
  cancelled.then(() => isCancelled = true);
  bodies.discard(requestOf(stream));
  // A handler replies when its promises have settled.
  await settled();
  assert.equal(isCancelled, false);
  await cancelled;
});

Deno.test("discard() does not touch a body of up to BODY_BYTES_MAX", () => {
  for (const length of [0, BODY_BYTES_MAX]) {
    bodies.discard(untouchable(length));
  }
});

Deno.test("discard() accepts a request without a body, and one whose body was read", async () => {
  bodies.discard(requestOf(null));
  for (const request of [requestOf("{}"), requestOf("{}", 2)]) {
    await bodies.read(request);
    bodies.discard(request);
  }
});

Deno.test("discard() ignores a body that fails", async () => {
  const { stream, exhausted } = streamOf(["{}"], "fails");
  bodies.discard(requestOf(stream));
  // An unhandled rejection would fail the test.
  await exhausted;
});
