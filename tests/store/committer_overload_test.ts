import assert from "node:assert/strict";
import { CREATES_WAITING_MAX, QUEUE_MS_MAX } from "../../src/limits.ts";
import { outcomesOf, settled, setUpCommitter } from "../support/held_store.ts";

Deno.test("create() answers overloaded if CREATES_WAITING_MAX creates wait, and not before", async () => {
  const { store, committer, create } = setUpCommitter();
  const creates = Array.from(
    { length: CREATES_WAITING_MAX },
    (_, id) => create(id),
  );
  const refused = create(-1);
  await settled();
  assert.equal(committer.waiting, CREATES_WAITING_MAX);
  assert.ok(creates.every(({ outcome }) => outcome === undefined));
  assert.equal(refused.outcome, "queue_full");

  // As many places are free as creates were answered.
  await store.write();
  const { length } = creates.filter(({ outcome }) => outcome === "stored");
  assert.ok(length > 0);
  const later = Array.from({ length: length + 1 }, (_, i) => create(-2 - i));
  await settled();
  assert.deepEqual(outcomesOf(later), [
    ...Array.from({ length }, () => undefined),
    "queue_full",
  ]);

  await store.writeAll();
  assert.equal(committer.waiting, 0);
  assert.ok(creates.every(({ outcome }) => outcome === "stored"));
  assert.ok(!store.plants.has(-1n), "a refused create was stored");
  assert.equal(store.plants.size, CREATES_WAITING_MAX + length);
});

Deno.test("create() counts creates of one id against CREATES_WAITING_MAX", async () => {
  const { store, create } = setUpCommitter();
  const creates = Array.from({ length: CREATES_WAITING_MAX }, () => create(1));
  const refused = create(1);
  await settled();
  assert.equal(refused.outcome, "queue_full");
  await store.writeAll();
  assert.deepEqual(
    outcomesOf(creates),
    creates.map((_, i) => i === 0 ? "stored" : "unchanged"),
  );
});

for (
  const [relation, ms, isRefused] of [
    ["below", -1, false],
    ["at", 0, false],
    ["above", 1, true],
  ] as const
) {
  const outcome = isRefused ? "answers overloaded" : "waits";

  Deno.test(`create() ${outcome} if the oldest queued create has waited ${relation} QUEUE_MS_MAX`, async () => {
    const { store, clock, create } = setUpCommitter({ commitPlantsMax: 10 });
    for (let id = 0; id < 12; id++) create(id);
    assert.equal(store.pending.length, 2);
    // One commit hangs, and the other one ends: the store responds.
    const [hung] = store.pending.splice(0, 1);
    clock.now = QUEUE_MS_MAX + ms;
    await store.write();
    const late = create(12);
    await settled();
    assert.equal(late.outcome, isRefused ? "queue_full" : undefined);
    hung?.resolve("committed");
    await settled();
    await store.writeAll();
    assert.equal(store.plants.has(11n), true);
    assert.equal(store.plants.has(12n), !isRefused);
  });

  Deno.test(`create() ${outcome} if a store has responded to no commit for a time ${relation} QUEUE_MS_MAX`, async () => {
    for (const commitsInFlightMax of [1, 2, 3, 16]) {
      const { store, clock, create } = setUpCommitter({ commitsInFlightMax });
      // All places but the last are taken, and no create is queued.
      const places = Math.max(1, commitsInFlightMax - 1);
      for (let id = 0; id < places; id++) create(id);
      assert.equal(store.pending.length, places);
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
  const { store, clock, create } = setUpCommitter({ commitPlantsMax: 10 });
  for (let id = 0; id < 12; id++) create(id);
  const [hung] = store.pending.splice(0, 1);
  clock.now = QUEUE_MS_MAX;
  await store.write();
  const later = create(12);
  clock.now++;
  const refused = create(13);
  await settled();
  assert.deepEqual(outcomesOf([later, refused]), [undefined, "queue_full"]);
  hung?.resolve("committed");
  await settled();
  await store.writeAll();
  assert.equal(later.outcome, "stored");
  assert.ok(!store.plants.has(13n));
});

Deno.test("create() waits beside hung commits while more than the last place is free", async () => {
  const { store, clock, create } = setUpCommitter({ commitsInFlightMax: 4 });
  create(1);
  create(2);
  const hung = store.pending.splice(0);
  assert.equal(hung.length, 2);
  for (let id = 3; id < 20; id++) {
    clock.now += 2 * QUEUE_MS_MAX;
    const created = create(id);
    await store.writeAll();
    assert.equal(created.outcome, "stored");
  }
});

Deno.test("create() waits while all places are taken if commits end", async () => {
  const { store, clock, create } = setUpCommitter({ commitPlantsMax: 2 });
  create(1);
  const hung = store.next();
  let id = 2;
  for (let round = 0; round < 20; round++) {
    // Two creates are a full batch, which may take the last place.
    const creates = [create(id++), create(id++)];
    clock.now += QUEUE_MS_MAX;
    await store.writeAll();
    assert.deepEqual(outcomesOf(creates), ["stored", "stored"]);
  }
  hung.resolve("committed");
});

Deno.test("the start of a commit counts as progress of the store", async () => {
  const { store, clock, create } = setUpCommitter({ commitsInFlightMax: 3 });
  create(1);
  clock.now = QUEUE_MS_MAX;
  create(2);
  assert.equal(store.pending.length, 2);
  clock.now = 2 * QUEUE_MS_MAX;
  const third = create(3);
  await settled();
  assert.equal(third.outcome, undefined);
  clock.now++;
  const fourth = create(4);
  await settled();
  assert.equal(fourth.outcome, "queue_full");
});

Deno.test("the end of a commit counts as progress of the store", async () => {
  const { store, clock, create } = setUpCommitter({
    commitPlantsMax: 1,
    commitsInFlightMax: 3,
  });
  for (let id = 0; id < 3; id++) create(id);
  clock.now = QUEUE_MS_MAX;
  await store.write();
  assert.equal(store.pending.length, 2);
  clock.now = 2 * QUEUE_MS_MAX;
  const waiting = create(3);
  await settled();
  assert.equal(waiting.outcome, undefined);
});

Deno.test("create() waits again as soon as the store has responded", async () => {
  const { store, clock, create } = setUpCommitter();
  const first = create(1);
  const queued = create(2);
  clock.now = 4 * QUEUE_MS_MAX;
  const refused = create(3);
  await store.writeAll();
  const later = create(4);
  await store.writeAll();
  assert.deepEqual(outcomesOf([first, queued, refused, later]), [
    "stored",
    "stored",
    "queue_full",
    "stored",
  ]);
});

Deno.test("an idle store is never overloaded", async () => {
  const { store, clock, create } = setUpCommitter();
  for (let id = 0; id < 5; id++) {
    clock.now += 100 * QUEUE_MS_MAX;
    const created = create(id);
    await store.writeAll();
    assert.equal(created.outcome, "stored");
  }
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

Deno.test("a committer with an infinite queueMsMax refuses by count only", async () => {
  const { store, clock, create } = setUpCommitter({ queueMsMax: Infinity });
  const creates = [];
  for (let id = 0; id < CREATES_WAITING_MAX; id++) {
    clock.now += 10;
    creates.push(create(id));
  }
  const refused = create(-1);
  await settled();
  assert.ok(creates.every(({ outcome }) => outcome === undefined));
  assert.equal(refused.outcome, "queue_full");
  await store.writeAll();
  assert.equal(store.plants.size, CREATES_WAITING_MAX);
});
