import assert from "node:assert/strict";
import { COMMIT_MS_MAX, LOCK_RETRY_MS_MAX } from "../../src/limits.ts";
import { outcomesOf, settled, setUpCommitter } from "../support/fake_store.ts";

Deno.test("expire() fails every create at its deadline, not before: in a commit, queued, or waiting for its id", async () => {
  const { recorded, committer, create, expireAt } = setUpCommitter({
    commitPlantsMax: 2,
  });
  const ids = Array.from({ length: 9 }, (_, id) => id);
  const creates = [...ids, ...ids].map((id) => create(id));
  await expireAt(COMMIT_MS_MAX - 1);
  assert.ok(creates.every(({ outcome }) => outcome === undefined));
  assert.equal(committer.waiting, creates.length);
  assert.deepEqual(recorded.reports, []);
  await expireAt(COMMIT_MS_MAX);
  assert.ok(creates.every(({ outcome }) => outcome === "failed"));
  assert.equal(committer.waiting, 0);
  const message = `no answer within ${COMMIT_MS_MAX / 1000} s`;
  assert.deepEqual(recorded.reports, [message]);
});

Deno.test("a commit that never ends holds up others only until its creates expire", async () => {
  const { store, clock, create, expireAt } = setUpCommitter({
    commitsInFlightMax: 2,
  });
  const first = create(1);
  const hung = store.next();
  clock.now = 1;
  const second = create(2);
  assert.equal(store.pending.length, 0);
  await expireAt(COMMIT_MS_MAX);
  await store.writeAll();
  assert.deepEqual(outcomesOf([first, second]), ["failed", "stored"]);
  const third = create(3);
  await store.writeAll();
  assert.equal(third.outcome, "stored");
  hung.resolve("committed");
  await settled();
});

Deno.test("a programmer error is not reported as one of the store, and does not stop the committer", async () => {
  const { store, recorded, create } = setUpCommitter();
  const bug = new TypeError("a bug of this test");
  const unhandled = Promise.withResolvers<unknown>();
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    unhandled.resolve(event.reason);
  }, { once: true });
  recorded.committed = () => {
    recorded.committed = () => {};
    throw bug;
  };
  const creates = [create(1), create(2)];
  await store.writeAll();
  assert.equal(await unhandled.promise, bug);
  await store.writeAll();
  assert.deepEqual(outcomesOf(creates), ["stored", "stored"]);
  assert.deepEqual(recorded.reports, []);
});

Deno.test("a commit to a locked store is retried after random delays, and reported once it succeeds", async () => {
  const { store, clock, recorded, create } = setUpCommitter();
  const created = create(1);
  const times = new Set<number>();
  for (let i = 0; i < 20; i++) {
    await store.next().resolve("locked");
    assert.equal(created.outcome, undefined);
    assert.equal(store.pending.length, 0, "no delay before a retry");
    for (const { ms } of clock.sleeps) times.add(ms);
    await clock.wake();
  }
  assert.equal(times.size, 20, "two processes would collide repeatedly");
  const longestMs = Math.max(...times);
  // All of 20 are short once in a million million runs.
  assert.ok(longestMs < LOCK_RETRY_MS_MAX && longestMs > LOCK_RETRY_MS_MAX / 4);
  assert.deepEqual(recorded.reports, []);
  await store.write();
  assert.equal(created.outcome, "stored");
  assert.deepEqual(recorded.reports, [1]);
});

Deno.test("a commit is reported with its seconds, without those of the read before it", async () => {
  const { store, clock, recorded, create } = setUpCommitter();
  store.plants.set(1n, { name: "Monstera" });
  create(1);
  create(2);
  clock.now = 1_000;
  await store.write();
  clock.now = 1_250;
  await store.write();
  assert.deepEqual(recorded.seconds, [0.25]);
});
