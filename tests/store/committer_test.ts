import assert from "node:assert/strict";
import { BODY_BYTES_MAX, WRITE_MS_MAX } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import {
  COMMIT_CHARS_MAX,
  type CommitListener,
  Committer,
  type Outcome,
} from "../../src/store/committer.ts";
import { noAnswer, type StoreError } from "../../src/store/store_error.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { FakeStore } from "../support/fake_store.ts";
import { settled } from "../support/waiting.ts";

// Each create here runs at once up to its commit, which then waits, because the
// store is paused: `await store.finishCommit()` lets the oldest one end, and
// everything that follows from it happen. `store.operations` has the commits and
// reads so far. This file is about what a commit contains, so it compares them
// exactly. The simulation has more creates that expire, and more failures.

const PLANT: Plant = { name: "Monstera" };

/** The outcome of a create, `undefined` while it has none. */
interface Created {
  outcome?: Outcome;
}

/** Returns a committer on a paused store, with a clock that the test advances. */
function setUp({
  plantsMax = 10,
  inFlightMax = 1,
  onCommit = () => {},
  pause = () => Promise.resolve(),
} = {}) {
  const store = new FakeStore({ plantsMax, inFlightMax }).pause();
  const clock = new FakeClock();
  /** When each commit that succeeded has started. */
  const commits: number[] = [];
  /** The errors that were reported. */
  const errors: StoreError[] = [];
  const listener: CommitListener = {
    committed(startMs) {
      onCommit();
      commits.push(startMs);
    },
    commitFailed: (error) => void errors.push(error),
  };
  const committer = new Committer({
    store,
    listener,
    clock: clock.read,
    pause,
  });
  function create(id: number, plant = PLANT): Created {
    const created: Created = {};
    committer.create({ id: BigInt(id), plant })
      .then((outcome) => created.outcome = outcome);
    return created;
  }
  return { store, clock, commits, errors, committer, create };
}

function outcomesOf(creates: readonly Created[]) {
  return creates.map(({ outcome }) => outcome);
}

Deno.test("a batch has as many plants as COMMIT_CHARS_MAX allows", async () => {
  for (
    const [chars, count] of [
      [BODY_BYTES_MAX, 12],
      [COMMIT_CHARS_MAX / 2, 2],
      [COMMIT_CHARS_MAX / 2 + 1, 1],
      [COMMIT_CHARS_MAX, 1],
    ] as const
  ) {
    const { store, create } = setUp({
      plantsMax: 100,
      inFlightMax: 2,
    });
    const batches = () => store.operations.map(([, ...ids]) => ids.length);
    for (let id = 0; id < 120; id++) create(id, { name: "a".repeat(chars) });
    assert.deepEqual(batches(), [1, count]);
    await store.finishCommits();
    assert.equal(Math.max(...batches()), count);
    assert.equal(store.plants.size, 120);
    // The queue is empty, so the first of these starts a commit of its own, and
    // the second one waits in the queue.
    create(120);
    create(121);
    assert.equal(store.pending.length, 1);
  }
});

Deno.test("a commit beside another one starts only with a full batch", async () => {
  const { store, create } = setUp({
    plantsMax: 3,
    inFlightMax: 3,
  });
  for (let id = 1; id <= 6; id++) create(id);
  assert.deepEqual(store.operations, [["commit", 1n], ["commit", 2n, 3n, 4n]]);
  create(7);
  assert.deepEqual(store.operations.slice(2), [["commit", 5n, 6n, 7n]]);
  create(8);
  await store.finishCommit();
  assert.equal(store.operations.length, 3);
  await store.finishCommits();
  assert.deepEqual(store.operations.slice(3), [["commit", 8n]]);
});

Deno.test("a commit beside one whose creates are answered in part starts only with a full batch", async () => {
  const { store, create } = setUp({ plantsMax: 3, inFlightMax: 3 });
  store.plants.set(1n, PLANT);
  for (const id of [20, 1, 21]) create(id);
  await store.finishCommit();
  await store.finishCommit();
  create(22);
  const last = [["commit", 1n, 21n], ["read", 1n, 21n], ["commit", 21n]];
  assert.deepEqual(store.operations.slice(1), last);
});

Deno.test("creates of one id that wait for a commit to start are in that commit together", async () => {
  const { store, create } = setUp();
  create(9);
  const creates = [create(1), create(1), create(1, { name: "Ficus" })];
  await store.finishCommits();
  assert.deepEqual(outcomesOf(creates), ["stored", "replayed", "conflict"]);
  assert.deepEqual(store.operations, [["commit", 9n], ["commit", 1n]]);
  assert.deepEqual(store.plants.get(1n), PLANT);
});

Deno.test("a create that arrives during the commit of its id is answered by a later one: the plant may be gone", async () => {
  const { store, create } = setUp();
  const first = create(1);
  const second = create(1);
  await store.finishCommit();
  assert.deepEqual(outcomesOf([first, second]), ["stored", undefined]);
  store.plants.delete(1n);
  await store.finishCommit();
  assert.equal(second.outcome, "stored");
  assert.deepEqual(store.plants.get(1n), PLANT);
});

Deno.test("a batch reads before it commits if the last one had existing ids", async () => {
  const { store, commits, create } = setUp();
  store.plants.set(1n, PLANT).set(2n, { name: "Ficus" }).set(4n, null);
  const creates = [1, 2, 3].map((id) => create(id));
  await store.finishCommits();
  for (const id of [4, 5, 6]) {
    creates.push(create(id));
    await settled();
    await store.finishCommits();
  }
  assert.deepEqual(
    outcomesOf(creates),
    ["replayed", "conflict", "stored", "conflict", "stored", "stored"],
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
  assert.equal(commits.length, 3);
});

Deno.test("a programmer error is not reported as one of the store, and does not stop the committer", async () => {
  const bug = new TypeError("a bug of this test");
  const bugs = [bug];
  const { store, commits, create } = setUp({
    onCommit() {
      for (const bug of bugs.splice(0)) throw bug;
    },
  });
  const unhandled = Promise.withResolvers<unknown>();
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    unhandled.resolve(event.reason);
  }, { once: true });
  const creates = [create(1), create(2)];
  await store.finishCommits();
  assert.equal(await unhandled.promise, bug);
  await store.finishCommits();
  assert.deepEqual(outcomesOf(creates), ["stored", "stored"]);
  assert.equal(commits.length, 1);
});

Deno.test("a commit is reported with its start, which is after the read before it", async () => {
  const { store, clock, commits, create } = setUp();
  store.plants.set(1n, PLANT);
  create(1);
  create(2);
  clock.now = 1_000;
  await store.finishCommit();
  clock.now = 1_250;
  await store.finishCommit();
  assert.deepEqual(commits, [1_000]);
});

Deno.test("a commit that meets a lock is repeated until the lock is released", async () => {
  const { store, commits, errors, create } = setUp();
  const [first] = [create(1), create(2)];
  store.problem = "database is locked";
  for (let tries = 0; tries < 3; tries++) await store.finishCommit();
  store.problem = undefined;
  await store.finishCommits();
  assert.equal(first.outcome, "stored");
  assert.deepEqual(store.operations, [
    ...Array(4).fill(["commit", 1n]),
    ["commit", 2n],
  ]);
  assert.equal(commits.length, 2);
  assert.deepEqual(errors, []);
});

Deno.test("a commit that meets a lock is repeated until its creates expire, one after the other, and is reported then", async () => {
  const { store, clock, commits, errors, committer, create } = setUp();
  store.problem = "database is locked";
  create(9);
  const first = create(1);
  clock.now = 1_000;
  const second = create(2);
  clock.now = WRITE_MS_MAX - 1;
  committer.expire();
  await store.finishCommit();
  assert.deepEqual(errors.splice(0), []);
  clock.now = WRITE_MS_MAX;
  committer.expire();
  assert.deepEqual(outcomesOf([first, second]), [undefined, undefined]);
  await store.finishCommit();
  assert.deepEqual(outcomesOf([first, second]), ["failed", undefined]);
  assert.deepEqual(errors.splice(0), [noAnswer(WRITE_MS_MAX)]);
  await store.finishCommit();
  clock.now += 1_000;
  committer.expire();
  await store.finishCommit();
  assert.equal(second.outcome, "failed");
  assert.deepEqual(errors.splice(0), [noAnswer(WRITE_MS_MAX)]);
  assert.equal(store.pending.length, 0);
  const commit = ["commit", 9n];
  const last = ["commit", 2n];
  assert.deepEqual(store.operations, [commit, commit, last, last]);
  assert.deepEqual(commits, []);
});

Deno.test("a commit whose creates have expired holds the queue back no longer", async () => {
  const { store, clock, committer, create } = setUp({ inFlightMax: 2 });
  const first = create(1);
  clock.now = 1_000;
  const second = create(2);
  assert.deepEqual(store.operations, [["commit", 1n]]);
  clock.now = WRITE_MS_MAX;
  committer.expire();
  assert.deepEqual(store.operations, [["commit", 1n], ["commit", 2n]]);
  await store.finishCommits();
  assert.deepEqual(outcomesOf([first, second]), ["failed", "stored"]);
});

Deno.test("a read before a commit that meets a lock is repeated until its creates expire", async () => {
  // A read is not paused, so each pause lets the test continue.
  const { store, clock, errors, committer, create } = setUp({ pause: settled });
  store.plants.set(1n, PLANT);
  create(1);
  await store.finishCommit();
  store.problem = "database is locked";
  const outcomes = [create(1), create(2)];
  await settled();
  assert.deepEqual(outcomesOf(outcomes), [undefined, undefined]);
  clock.now = WRITE_MS_MAX;
  committer.expire();
  await settled();
  assert.deepEqual(outcomesOf(outcomes), ["failed", "failed"]);
  assert.deepEqual(errors, [noAnswer(WRITE_MS_MAX)]);
  const { length } = store.operations;
  await settled();
  assert.equal(store.operations.length, length);
});
