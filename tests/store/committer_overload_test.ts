import assert from "node:assert/strict";
import { CREATES_WAITING_MAX, QUEUE_MS_MAX } from "../../src/limits.ts";
import { outcomesOf, settled, setUpCommitter } from "../support/fake_store.ts";

Deno.test("create() answers queue_full if CREATES_WAITING_MAX creates wait, some for one id, and not before", async () => {
  const { store, committer, create } = setUpCommitter();
  const creates = Array.from(
    { length: CREATES_WAITING_MAX },
    (_, i) => create(i >> 1),
  );
  const refused = create(-1);
  await settled();
  assert.equal(committer.waiting, CREATES_WAITING_MAX);
  assert.ok(creates.every(({ outcome }) => outcome === undefined));
  assert.equal(refused.outcome, "queue_full");

  // As many places are free as creates were answered.
  await store.write();
  const { length } = creates.filter(({ outcome }) => outcome !== undefined);
  assert.ok(length > 0);
  const later = Array.from({ length: length + 1 }, (_, i) => create(-2 - i));
  await settled();
  assert.deepEqual(outcomesOf(later), [
    ...Array.from({ length }, () => undefined),
    "queue_full",
  ]);

  await store.writeAll();
  assert.equal(committer.waiting, 0);
  assert.deepEqual(
    outcomesOf(creates),
    creates.map((_, i) => i % 2 === 0 ? "stored" : "unchanged"),
  );
  assert.ok(!store.plants.has(-1n), "a refused create was stored");
  assert.equal(store.plants.size, CREATES_WAITING_MAX / 2 + length);
});

for (
  const [relation, ms, isRefused] of [
    ["at", 0, false],
    ["above", 1, true],
  ] as const
) {
  const outcome = isRefused ? "answers queue_full" : "waits";

  Deno.test(`create() ${outcome} if the oldest queued create has waited ${relation} QUEUE_MS_MAX`, async () => {
    const { store, clock, create } = setUpCommitter({ commitPlantsMax: 1 });
    for (const id of [0, 1, 2]) create(id);
    clock.now = QUEUE_MS_MAX + ms;
    // The store makes progress: its first commit ends, and the next one starts.
    await store.write();
    const late = create(3);
    await settled();
    assert.equal(late.outcome, isRefused ? "queue_full" : undefined);
    await store.writeAll();
    assert.equal(store.plants.has(2n), true);
    assert.equal(store.plants.has(3n), !isRefused);
  });

  Deno.test(`create() ${outcome} if all commits that may be in flight have been so for a time ${relation} QUEUE_MS_MAX`, async () => {
    for (const commitsInFlightMax of [1, 2, 16]) {
      const { store, clock, create } = setUpCommitter({
        commitPlantsMax: 1,
        commitsInFlightMax,
      });
      for (let id = 0; id < commitsInFlightMax; id++) create(id);
      assert.equal(store.pending.length, commitsInFlightMax);
      clock.now = QUEUE_MS_MAX + ms;
      const late = create(-1);
      await settled();
      assert.equal(late.outcome, isRefused ? "queue_full" : undefined);
      await store.writeAll();
      assert.equal(store.plants.has(-1n), !isRefused);
    }
  });
}

Deno.test("create() judges an overload by the oldest queued create, not by later ones", async () => {
  const { store, clock, create } = setUpCommitter({ commitPlantsMax: 1 });
  for (const id of [0, 1, 2]) create(id);
  clock.now = QUEUE_MS_MAX;
  // The next commit starts, so that only the age of a create can refuse others.
  await store.write();
  const later = create(3);
  clock.now++;
  const refused = create(4);
  await settled();
  assert.deepEqual(outcomesOf([later, refused]), [undefined, "queue_full"]);
  await store.writeAll();
  assert.ok(!store.plants.has(4n));
});

Deno.test("create() waits beside hung commits while another may be in flight", async () => {
  const { store, clock, create } = setUpCommitter({
    commitPlantsMax: 1,
    commitsInFlightMax: 3,
  });
  create(1);
  create(2);
  store.pending.splice(0);
  for (let id = 3; id < 20; id++) {
    clock.now += 2 * QUEUE_MS_MAX;
    const created = create(id);
    await store.writeAll();
    assert.equal(created.outcome, "stored");
  }
});

Deno.test("the start of a commit counts as progress of the store", async () => {
  const { store, clock, create } = setUpCommitter({
    commitPlantsMax: 1,
    commitsInFlightMax: 2,
  });
  create(1);
  clock.now = QUEUE_MS_MAX;
  create(2);
  clock.now = 2 * QUEUE_MS_MAX;
  const waiting = create(3);
  await store.write();
  clock.now = 3 * QUEUE_MS_MAX;
  const later = create(4);
  clock.now++;
  const refused = create(5);
  await settled();
  assert.deepEqual(
    outcomesOf([waiting, later, refused]),
    [undefined, undefined, "queue_full"],
  );
});

Deno.test("queueMsMax replaces QUEUE_MS_MAX", async () => {
  const { store, clock, create } = setUpCommitter({ queueMsMax: 20 });
  create(1);
  create(2);
  clock.now = 20;
  const third = create(3);
  clock.now = 21;
  const fourth = create(4);
  await settled();
  assert.deepEqual(outcomesOf([third, fourth]), [undefined, "queue_full"]);
  await store.writeAll();
  assert.equal(store.plants.size, 3);
});
