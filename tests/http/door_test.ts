import assert from "node:assert/strict";
import { Door } from "../../src/http/door.ts";
import { CREATES_RUNNING_MAX } from "../../src/limits.ts";
import { settled } from "../support/waiting.ts";

Deno.test("enter() admits CREATES_RUNNING_MAX creates, and one more for each that leaves", () => {
  const door = new Door();
  for (let i = 0; i < CREATES_RUNNING_MAX; i++) assert.ok(door.enter());
  for (let i = 0; i < 2; i++) assert.ok(!door.enter());
  assert.equal(door.creates, CREATES_RUNNING_MAX);
  door.leave();
  assert.ok(door.enter());
  assert.ok(!door.enter());
});

Deno.test("drain() resolves when the last request leaves, also one that enters meanwhile, or at once", async () => {
  const door = new Door();
  assert.ok(door.enter());
  assert.ok(!door.isDraining);
  let isDrained = false;
  const drained = door.drain().then(() => isDrained = true);
  assert.ok(door.isDraining);
  assert.ok(door.enter());
  door.leave();
  await settled();
  assert.equal(isDrained, false);
  door.leave();
  await drained;

  await new Door().drain();
});
