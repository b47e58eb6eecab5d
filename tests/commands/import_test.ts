import assert from "node:assert/strict";
import { Import, importPlants } from "../../src/commands/import.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import { FakeClock, FakeStore, settled } from "../support/fake_store.ts";
import { range } from "../support/plants.ts";
import { fileAt } from "../support/stores.ts";
import { test } from "../support/tests.ts";
import { toLine } from "../support/transfer.ts";

const COMMIT_PLANTS = 10;
const UNREADABLE = 7n;

/** Returns an import into a store whose commits the test carries out. */
function setUp() {
  const store = new FakeStore(COMMIT_PLANTS, 1).pause();
  const clock = new FakeClock();
  const run = new Import(store, clock);
  /** Returns the numbers of plants that are stored, and that failed. */
  function counts(): [stored: number, failed: number] {
    const { stored, replayed, failed } = run.counts;
    return [stored + replayed, failed];
  }
  return { store, clock, run, counts };
}

/** Returns lines whose plants need at least so many commits. */
function lines(commits: number): string[] {
  return range(0n, commits * COMMIT_PLANTS).map((id) => toLine(id, "Monstera"));
}

test("importPlants() creates no store if it cannot open its input", async ({ directory, store }) => {
  const file = directory.file("missing");
  const imported = importPlants(fileAt(store), file);
  await assert.rejects(imported, /cannot read .*No such/);
  assert.deepEqual(directory.names(), []);
});

Deno.test("Import waits for a slow store as long as it makes progress", async () => {
  const { store, clock, run, counts } = setUp();
  const added = run.add(lines(4));
  while (store.pending.length > 0) {
    clock.now += COMMIT_MS_MAX - 1;
    run.expire();
    await store.write();
  }
  await added;
  assert.deepEqual(counts(), [4 * COMMIT_PLANTS, 0]);
  assert.ok(clock.now > 2 * COMMIT_MS_MAX);
});

Deno.test("Import counts plants that are already stored as progress", async () => {
  const { store, clock, run, counts } = setUp();
  store.plants.set(0n, { name: "Monstera" });
  const added = run.add(lines(1));
  clock.now += COMMIT_MS_MAX - 1;
  await store.write();
  assert.deepEqual(counts(), [1, 0]);
  clock.now += 1;
  run.expire();
  await store.writeAll();
  await added;
  assert.deepEqual(counts(), [COMMIT_PLANTS, 0]);
});

Deno.test("Import fails every waiting plant when the store makes no progress for COMMIT_MS_MAX", async () => {
  const { store, clock, run, counts } = setUp();
  const added = run.add(lines(3));
  clock.now += COMMIT_MS_MAX - 1;
  await store.write();
  for (const ms of [COMMIT_MS_MAX - 1, 1]) {
    await settled();
    assert.equal(run.counts.failed, 0);
    clock.now += ms;
    run.expire();
  }
  await added;
  // The first plant did not wait for others: it was a commit of its own.
  assert.deepEqual(counts(), [1, 3 * COMMIT_PLANTS - 1]);
  assert.ok(!run.isComplete);
});

Deno.test("Import waits for its input without a limit", async () => {
  const { store, clock, run, counts } = setUp();
  for (const [i, line] of lines(1).entries()) {
    clock.now += 2 * COMMIT_MS_MAX;
    const added = run.add([line]);
    run.expire();
    await store.write();
    await added;
    assert.deepEqual(counts(), [i + 1, 0]);
  }
});

Deno.test("Import is complete only while every line is a plant that is stored", async () => {
  for (
    const [line, isComplete] of [
      [toLine(0n, "Monstera"), true],
      ["", true],
      [toLine(0n, "Ficus"), false],
      [toLine(UNREADABLE, "Monstera"), false],
      ["no plant", false],
      [{ problem: "expected well-formed UTF-8" }, false],
    ] as const
  ) {
    const { store, run } = setUp();
    store.plants.set(0n, { name: "Monstera" }).set(UNREADABLE, null);
    store.unreadable = UNREADABLE;
    const added = run.add([line]);
    await store.writeAll();
    await added;
    // Only a failure of the store is one that an import can repeat.
    assert.equal(run.counts.failed, 0);
    assert.equal(run.isComplete, isComplete, String(line));
  }
});
