import assert from "node:assert/strict";
import { Door } from "../../src/http/door.ts";
import { CREATES_RUNNING_MAX, QUIET_MS } from "../../src/limits.ts";
import { Log } from "../../src/telemetry/log.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { settled } from "../support/waiting.ts";

/** A door, the time, and what is logged. */
function newDoor() {
  const clock = new FakeClock();
  const logged: string[] = [];
  const log = new Log("text", (line) => logged.push(line));
  return { door: new Door({ log, clock: clock.read }), clock, logged };
}

Deno.test("enter() admits CREATES_RUNNING_MAX creates, and one more for each that leaves", () => {
  const { door } = newDoor();
  for (let i = 0; i < CREATES_RUNNING_MAX; i++) assert.ok(door.enter());
  for (let i = 0; i < 2; i++) assert.ok(!door.enter());
  assert.equal(door.posts, CREATES_RUNNING_MAX);
  door.leave();
  assert.ok(door.enter());
  assert.ok(!door.enter());
});

Deno.test("drain() resolves when the last request leaves, also one that enters meanwhile, or at once", async () => {
  const { door } = newDoor();
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

  await newDoor().door.drain();
});

Deno.test("a door logs the first refusal and, when there was none for QUIET_MS, how many there were", () => {
  const { door, clock, logged } = newDoor();
  for (let i = 0; i < CREATES_RUNNING_MAX; i++) door.enter();
  door.sweep();
  assert.deepEqual(logged, []);
  for (const refusals of [1, 3]) {
    logged.length = 0;
    for (let i = 0; i < refusals; i++) {
      // The creates between them, which are admitted, are not the end.
      door.leave();
      assert.ok(door.enter());
      assert.ok(!door.enter());
      door.sweep();
      clock.now += QUIET_MS - 1;
      door.sweep();
    }
    assert.equal(logged.length, 1);
    clock.now++;
    for (let i = 0; i < 2; i++) door.sweep();
    const [start = "", end = ""] = logged;
    assert.equal(logged.length, 2);
    assert.match(
      start,
      / warning: busy: 4096 creates are running, further ones are refused$/,
    );
    const were = refusals === 1 ? "create was" : "creates were";
    assert.ok(
      end.endsWith(` info: no longer busy: ${refusals} ${were} refused`),
      end,
    );
  }
});
