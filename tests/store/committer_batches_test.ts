import assert from "node:assert/strict";
import { BODY_BYTES_MAX, COMMIT_CHARS_MAX } from "../../src/limits.ts";
import { outcomesOf, settled, setUpCommitter } from "../support/fake_store.ts";

const PLANT = { name: "Monstera" };

Deno.test("a batch has as many plants as COMMIT_CHARS_MAX allows", async () => {
  for (
    const [chars, count] of [
      [BODY_BYTES_MAX, 12],
      [COMMIT_CHARS_MAX / 2, 2],
      [COMMIT_CHARS_MAX / 2 + 1, 1],
      [COMMIT_CHARS_MAX, 1],
    ] as const
  ) {
    const { store, create } = setUpCommitter({
      commitPlantsMax: 100,
      commitsInFlightMax: 2,
    });
    for (let id = 0; id < 60; id++) create(id, { name: "a".repeat(chars) });
    assert.deepEqual(store.batches, [1, count]);
    await store.writeAll();
    assert.equal(Math.max(...store.batches), count);
    assert.equal(store.plants.size, 60);
    // None is queued any more, so the second one waits for more.
    create(60);
    create(61);
    assert.equal(store.pending.length, 1);
  }
});

Deno.test("a commit beside another one starts only with a full batch", async () => {
  const { store, create } = setUpCommitter({
    commitPlantsMax: 3,
    commitsInFlightMax: 3,
  });
  for (let id = 1; id <= 6; id++) create(id);
  assert.deepEqual(store.operations, [["commit", 1n], ["commit", 2n, 3n, 4n]]);
  create(7);
  assert.deepEqual(store.operations.slice(2), [["commit", 5n, 6n, 7n]]);
  create(8);
  await store.write();
  assert.equal(store.operations.length, 3);
  await store.writeAll();
  assert.deepEqual(store.operations.slice(3), [["commit", 8n]]);
});

Deno.test("creates of one id that wait for a commit to start are in that commit together", async () => {
  const { store, create } = setUpCommitter();
  create(9);
  const creates = [create(1), create(1), create(1, { name: "Ficus" })];
  await store.writeAll();
  assert.deepEqual(outcomesOf(creates), ["stored", "replayed", "conflict"]);
  assert.deepEqual(store.operations, [["commit", 9n], ["commit", 1n]]);
  assert.deepEqual(store.plants.get(1n), PLANT);
});

Deno.test("a create that arrives during the commit of its id is answered by a later one, since the plant may have been removed before", async () => {
  const { store, create } = setUpCommitter();
  const first = create(1);
  const second = create(1);
  await store.write();
  assert.deepEqual(outcomesOf([first, second]), ["stored", undefined]);
  store.plants.delete(1n);
  await store.write();
  assert.equal(second.outcome, "stored");
  assert.deepEqual(store.plants.get(1n), PLANT);
});

Deno.test("a batch reads before it commits if the last one had existing ids", async () => {
  const { store, recorded, create } = setUpCommitter();
  for (const id of [1n, 2n, 4n]) store.plants.set(id, PLANT);
  const creates = [1, 2, 3].map((id) => create(id));
  await store.writeAll();
  for (const id of [4, 5, 6]) {
    creates.push(create(id));
    await settled();
    await store.writeAll();
  }
  assert.deepEqual(
    outcomesOf(creates),
    ["replayed", "replayed", "stored", "replayed", "stored", "stored"],
  );
  assert.deepEqual(store.operations, [
    ["commit", 1n],
    ["read", 1n],
    // One of two exists.
    ["read", 2n, 3n],
    ["commit", 3n],
    // All exist: no commit.
    ["read", 4n],
    // None exists: the next batch commits without reading.
    ["read", 5n],
    ["commit", 5n],
    ["commit", 6n],
  ]);
  // A read is no success: it needs no room on the disk.
  assert.deepEqual(recorded.reports, [1, 1, 1]);
});

Deno.test("a value that cannot be read fails the creates of its id, and no others, and the store is not failing", async () => {
  const { store, recorded, create } = setUpCommitter();
  store.plants.set(1n, PLANT).set(2n, PLANT);
  store.unreadable = 2n;
  const first = create(4);
  const creates = [1, 2, 3].map((id) => create(id));
  await store.writeAll();
  const outcomes = ["stored", "replayed", "unreadable", "stored"];
  assert.deepEqual(outcomesOf([first, ...creates]), outcomes);
  assert.deepEqual(recorded.reports, [1, 1]);
});
