import assert from "node:assert/strict";
import {
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
  QUEUE_MS_MAX,
  RECENT_CHARS_MAX,
  RECENT_PLANTS_MAX,
} from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { outcomesOf, settled, setUpCommitter } from "../support/held_store.ts";

const PLANT = { name: "Monstera", tag: "climber" };
const OTHERS: Plant[] = [
  { name: "Monstera" },
  { name: "Monstera", tag: "" },
  { name: "Monstera", tag: "climbe" },
  { name: "Monsteraclimber" },
  { name: "monstera", tag: "climber" },
];

/** Returns a committer that has stored PLANT with id 1. */
async function setUpStored() {
  const set = setUpCommitter();
  const created = set.create(1, PLANT);
  await set.store.writeAll();
  assert.equal(created.outcome, "stored");
  set.store.operations.length = 0;
  return set;
}

Deno.test("a recent plant is replayed without the store", async () => {
  const { store, committer, create } = await setUpStored();
  const again = create(1, { ...PLANT });
  await settled();
  assert.equal(again.outcome, "unchanged");
  assert.deepEqual(store.operations, []);
  assert.equal(committer.waiting, 0);
});

Deno.test("a different plant conflicts with a recent one without the store", async () => {
  const { store, create } = await setUpStored();
  const creates = OTHERS.map((plant) => create(1, plant));
  await settled();
  assert.ok(creates.every(({ outcome }) => outcome === "conflict"));
  assert.deepEqual(store.operations, []);
  assert.deepEqual(store.plants.get(1n), PLANT);
});

Deno.test("a plant that was found stored is replayed without the store", async () => {
  const { store, create } = setUpCommitter();
  store.plants.set(1n, PLANT);
  const creates = [create(1, { name: "Ficus" })];
  await store.writeAll();
  store.operations.length = 0;
  creates.push(create(1, { ...PLANT }), create(1, { name: "Ficus" }));
  await settled();
  assert.deepEqual(outcomesOf(creates), ["conflict", "unchanged", "conflict"]);
  assert.deepEqual(store.operations, []);
});

Deno.test("the value of another program is not remembered", async () => {
  const { store, create } = setUpCommitter();
  store.plants.set(1n, null);
  const creates = [create(1, PLANT)];
  await store.writeAll();
  store.operations.length = 0;
  creates.push(create(1, PLANT));
  await settled();
  assert.deepEqual(store.operations, [["read", 1n]]);
  assert.deepEqual(outcomesOf(creates), ["conflict", "conflict"]);
});

Deno.test("a plant is not remembered before its commit has ended, nor after it has failed", async () => {
  const { store, create } = setUpCommitter();
  const first = create(1, PLANT);
  const waiting = create(1, PLANT);
  await settled();
  assert.deepEqual(outcomesOf([first, waiting]), [undefined, undefined]);
  store.next().fail("disk I/O error");
  await settled();
  // The create that waited is retried on its own.
  store.next().fail("disk I/O error");
  await settled();
  assert.deepEqual(outcomesOf([first, waiting]), ["failed", "failed"]);
  const other = create(1, { name: "Ficus" });
  await store.writeAll();
  assert.equal(other.outcome, "stored");
  assert.deepEqual(store.plants.get(1n), { name: "Ficus" });
});

Deno.test("a plant whose commit landed after its deadline is remembered", async () => {
  const { store, clock, committer, create } = setUpCommitter();
  create(1, PLANT);
  clock.now = COMMIT_MS_MAX;
  committer.expire();
  await store.writeAll();
  store.operations.length = 0;
  const again = create(1, PLANT);
  await settled();
  assert.equal(again.outcome, "unchanged");
  assert.deepEqual(store.operations, []);
});

Deno.test("no create is answered from memory while the store is not healthy", async () => {
  const { store, health, create } = await setUpStored();
  health.healthy = false;
  // The file was replaced by one without this plant.
  store.plants.clear();
  const failed = create(1, PLANT);
  await settled();
  assert.deepEqual(store.operations, [["commit", 1n]]);
  store.next().fail("the database file was replaced");
  await settled();
  assert.equal(failed.outcome, "failed");

  const conflicting = create(1, { name: "Ficus" });
  await settled();
  assert.equal(conflicting.outcome, undefined);
  store.next().fail("the database file was replaced");
  await settled();
  assert.equal(conflicting.outcome, "failed");

  health.healthy = true;
  const again = create(1, PLANT);
  await settled();
  assert.equal(again.outcome, "unchanged");
});

Deno.test("a plant is remembered up to RECENT_CHARS_MAX, and read from the store above", async () => {
  for (
    const [nameChars, tagChars, isRemembered] of [
      [RECENT_CHARS_MAX, undefined, true],
      [RECENT_CHARS_MAX + 1, undefined, false],
      [RECENT_CHARS_MAX, 0, true],
      [RECENT_CHARS_MAX - 1, 1, true],
      [RECENT_CHARS_MAX, 1, false],
      [0, RECENT_CHARS_MAX, true],
      [0, RECENT_CHARS_MAX + 1, false],
    ] as const
  ) {
    const { store, create } = setUpCommitter();
    const name = "竹".repeat(nameChars);
    const plant = tagChars === undefined
      ? { name }
      : { name, tag: "a".repeat(tagChars) };
    create(1, plant);
    await store.writeAll();
    store.operations.length = 0;
    const again = create(1, plant);
    await settled();
    assert.equal(again.outcome === "unchanged", isRemembered);
    assert.equal(store.operations.length === 0, isRemembered);
    await store.writeAll();
    assert.equal(again.outcome, "unchanged");
  }
});

Deno.test("a longer plant conflicts with a recent one without the store", async () => {
  const { store, create } = await setUpStored();
  const creates = [RECENT_CHARS_MAX + 1, 256 + PLANT.name.length, 30_000]
    .map((chars) => create(1, { name: PLANT.name.padEnd(chars), tag: "" }));
  await settled();
  assert.ok(creates.every(({ outcome }) => outcome === "conflict"));
  assert.deepEqual(store.operations, []);
});

Deno.test("a plant that a later one has evicted is read from the store", async () => {
  const { store, create } = await setUpStored();
  const evicting = create(1 + RECENT_PLANTS_MAX, PLANT);
  await store.writeAll();
  store.operations.length = 0;
  const recent = create(1 + RECENT_PLANTS_MAX, PLANT);
  await settled();
  assert.deepEqual(store.operations, []);
  const evicted = [create(1, PLANT), create(1, { name: "Ficus" })];
  await store.writeAll();
  assert.deepEqual(store.operations, [["commit", 1n], ["read", 1n]]);
  assert.deepEqual(
    outcomesOf([evicting, recent, ...evicted]),
    ["stored", "unchanged", "unchanged", "conflict"],
  );
});

Deno.test("an overloaded committer still replays a recent plant", async () => {
  const { store, clock, create } = await setUpStored();
  for (let id = 2; id < 2 + CREATES_WAITING_MAX; id++) create(id);
  clock.now = 2 * QUEUE_MS_MAX;
  const [refused, replayed] = [create(-1), create(1, PLANT)];
  await settled();
  assert.deepEqual(
    outcomesOf([refused, replayed]),
    ["queue_full", "unchanged"],
  );
  await store.writeAll();
});
