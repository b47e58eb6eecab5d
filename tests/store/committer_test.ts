import assert from "node:assert/strict";
import {
  type Clock,
  commitBytesMax,
  type CommitResult,
  type CommitStore,
  Committer,
  type Outcome,
} from "../../src/store/committer.ts";
import {
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  CREATES_WAITING_MAX,
} from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";

/** A commit that the committer waits for. */
interface Asked {
  readonly plants: readonly NewPlant[];
  answer(result: CommitResult): void;
  fail(problem: string): void;
}

/** A store that does nothing until the test says what. */
class HeldStore implements CommitStore {
  readonly commitPlantsMax: number;
  readonly commitsInFlightMax = 2;
  /** Every commit so far, in the order in which they came. */
  readonly batches: (readonly NewPlant[])[] = [];
  /** Those that wait for an answer. */
  readonly asked: Asked[] = [];
  readonly plants = new Map<bigint, Plant | null>();
  /** What is wrong with it. */
  problem: string | undefined;

  constructor(commitPlantsMax = 10) {
    this.commitPlantsMax = commitPlantsMax;
  }

  commit(plants: readonly NewPlant[]): Promise<CommitResult> {
    const batch = plants.map(({ id, plant }) => ({ id, plant }));
    this.batches.push(batch);
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>();
    this.asked.push({
      plants: batch,
      answer: resolve,
      fail: (problem) => reject(new TypeError(problem)),
    });
    return promise;
  }

  read(ids: readonly bigint[]): Promise<(Plant | null | undefined)[]> {
    return Promise.resolve(ids.map((id) => this.plants.get(id)));
  }

  look(): string | undefined {
    return this.problem;
  }

  /** The oldest commit that waits for an answer. */
  next(): Asked {
    const asked = this.asked.shift();
    assert.ok(asked !== undefined, "expected a commit, got none");
    return asked;
  }

  /** Writes what the oldest commit asks for, and answers it as a store would. */
  async write(): Promise<void> {
    const { plants, answer } = this.next();
    const exists = plants.some(({ id }) => this.plants.has(id));
    if (!exists) {
      for (const { id, plant } of plants) this.plants.set(id, plant);
    }
    answer(exists ? "exists" : "committed");
    await settled();
  }

  /** Writes until nothing is asked for. */
  async writeAll(): Promise<void> {
    while (this.asked.length > 0) await this.write();
  }

  get batchMax(): number {
    return Math.max(...this.batches.map((batch) => batch.length));
  }
}

/** A clock that the test turns. */
class HeldClock implements Clock {
  now = 0;
  readonly sleeps: { ms: number; wake: () => void }[] = [];

  nowMs(): number {
    return this.now;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((wake) => this.sleeps.push({ ms, wake }));
  }

  /** Ends the only sleep there is. */
  async wake(): Promise<void> {
    const sleep = this.sleeps.shift();
    assert.ok(sleep !== undefined, "expected a rest, got none");
    assert.ok(sleep.ms >= 0 && sleep.ms < COMMIT_MS_MAX, `rested ${sleep.ms}`);
    sleep.wake();
    await settled();
  }
}

/** A committer on a held store, with what it reported and answered. */
function setUp(commitPlantsMax?: number) {
  const store = new HeldStore(commitPlantsMax);
  const clock = new HeldClock();
  const reports: (string | undefined)[] = [];
  const committer = new Committer(
    store,
    (problem) => reports.push(problem),
    clock,
  );
  /** Creates a plant and returns the place where its outcome will stand. */
  function create(id: number, plant: Plant = { name: "Monstera" }) {
    const answered: { outcome?: Outcome } = {};
    committer.create({ id: BigInt(id), plant }).then((outcome) => {
      answered.outcome = outcome;
    });
    return answered;
  }
  return { store, clock, reports, committer, create };
}

/** Waits until all that promises can do by themselves is done. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await undefined;
}

/** A plant that adds a number of bytes to a commit. */
function plantOf(bytes: number): Plant {
  const empty = commitBytesMax({ name: "" });
  const character = commitBytesMax({ name: "a" }) - empty;
  const plant = { name: "a".repeat((bytes - empty) / character) };
  assert.equal(commitBytesMax(plant), bytes);
  return plant;
}

Deno.test("create() commits at once when the store is idle", () => {
  const { store, create } = setUp();
  create(1);
  assert.deepEqual(store.batches, [[{ id: 1n, plant: { name: "Monstera" } }]]);
});

Deno.test("create() puts what arrives during a commit into the next, together", async () => {
  const { store, create } = setUp();
  for (let id = 1; id <= 6; id++) create(id);
  const begun = store.asked.flatMap(({ plants }) => plants).length;
  assert.ok(begun < 5, `${begun} of 6 creates were in a commit of their own`);
  const before = store.batches.length;
  await store.write();
  assert.deepEqual(
    store.batches.slice(before).map((batch) => batch.map(({ id }) => id)),
    [[1n, 2n, 3n, 4n, 5n, 6n].slice(begun)],
  );
});

Deno.test("a batch takes as many plants as the store does, and not one more", async () => {
  const { store, create } = setUp(10);
  const answered = Array.from({ length: 500 }, (_, id) => create(id));
  await store.writeAll();
  assert.equal(store.batchMax, 10);
  assert.ok(answered.every(({ outcome }) => outcome === "stored"));
});

Deno.test("a batch is bounded by bytes: two plants of half the limit fit", async () => {
  const { store, create } = setUp(100);
  for (let id = 0; id < 20; id++) create(id, plantOf(COMMIT_BYTES_MAX / 2));
  await store.writeAll();
  assert.equal(store.batchMax, 2);
  assert.equal(store.plants.size, 20);
});

Deno.test("a batch is bounded by bytes: two plants just below half the limit fit", async () => {
  const { store, create } = setUp(100);
  for (let id = 0; id < 20; id++) create(id, plantOf(COMMIT_BYTES_MAX / 2 - 2));
  await store.writeAll();
  assert.equal(store.batchMax, 2);
  assert.equal(store.plants.size, 20);
});

Deno.test("a batch is bounded by bytes: two plants above half the limit do not fit", async () => {
  const { store, create } = setUp(100);
  for (let id = 0; id < 20; id++) create(id, plantOf(COMMIT_BYTES_MAX / 2 + 2));
  await store.writeAll();
  assert.equal(store.batchMax, 1);
  assert.equal(store.plants.size, 20);
});

Deno.test("create() begins no more commits than the store takes at a time", async () => {
  const { store, create } = setUp(10);
  for (let id = 0; id < 500; id++) create(id);
  let most = 0;
  while (store.asked.length > 0) {
    most = Math.max(most, store.asked.length);
    await store.write();
  }
  assert.equal(most, store.commitsInFlightMax);
});

Deno.test("create() answers queue full above CREATES_WAITING_MAX, and not before", async () => {
  const { store, committer, create } = setUp(10);
  const answered = Array.from(
    { length: CREATES_WAITING_MAX },
    (_, id) => create(id),
  );
  const excess = create(-1);
  await settled();
  assert.equal(committer.waiting, CREATES_WAITING_MAX);
  assert.ok(answered.every(({ outcome }) => outcome === undefined));
  assert.equal(excess.outcome, "queue full");

  // As many places are free as creates were answered.
  const { length } = store.batches[0] ?? [];
  await store.write();
  const later = Array.from({ length: length + 1 }, (_, i) => create(-2 - i));
  await settled();
  assert.deepEqual(
    later.map(({ outcome }) => outcome),
    [...Array.from({ length }, () => undefined), "queue full"],
  );

  await store.writeAll();
  assert.equal(committer.waiting, 0);
  assert.ok(answered.every(({ outcome }) => outcome === "stored"));
  assert.ok(!store.plants.has(-1n), "a refused create was stored");
});

Deno.test("create() counts creates of one id against CREATES_WAITING_MAX", async () => {
  const { store, create } = setUp();
  const answered = Array.from({ length: CREATES_WAITING_MAX }, () => create(1));
  const excess = create(1);
  await settled();
  assert.equal(excess.outcome, "queue full");
  await store.writeAll();
  assert.deepEqual(
    answered.map(({ outcome }) => outcome),
    answered.map((_, i) => i === 0 ? "stored" : "replayed"),
  );
});

Deno.test("sweep() answers nothing just before the deadline", async () => {
  const { clock, committer, create } = setUp();
  const first = create(1);
  const follower = create(1);
  clock.now = COMMIT_MS_MAX - 1;
  committer.sweep();
  await settled();
  assert.deepEqual([first, follower], [{}, {}]);
  assert.equal(committer.waiting, 2);
});

for (const [where, ms] of [["at", 0], ["above", 1]] as const) {
  Deno.test(`sweep() answers failed ${where} the deadline, to those in a commit, in the queue and behind another`, async () => {
    const { store, clock, committer, create } = setUp(2);
    const ids = Array.from({ length: 9 }, (_, id) => id);
    const first = ids.map((id) => create(id));
    const followers = ids.map((id) => create(id));
    assert.equal(store.asked.length, 2);
    clock.now = COMMIT_MS_MAX + ms;
    committer.sweep();
    await settled();
    for (const { outcome } of [...first, ...followers]) {
      assert.equal(outcome, "failed");
    }
    assert.equal(committer.waiting, 0);
  });
}

Deno.test("sweep() lets a create that is not due wait on behind one that is", async () => {
  const { store, clock, committer, create } = setUp();
  const first = create(1);
  clock.now = 1;
  const follower = create(1, { name: "Ficus" });
  clock.now = COMMIT_MS_MAX;
  committer.sweep();
  await settled();
  assert.deepEqual([first.outcome, follower.outcome], ["failed", undefined]);
  // The commit lands late: what follows is compared with what it stored.
  await store.writeAll();
  assert.deepEqual([first.outcome, follower.outcome], ["failed", "conflict"]);
});

Deno.test("a create that was given up in the queue is never committed", async () => {
  const { store, clock, committer, create } = setUp(2);
  for (let id = 0; id < 9; id++) create(id);
  const begun = new Set(
    store.asked.flatMap(({ plants }) => plants.map(({ id }) => id)),
  );
  clock.now = COMMIT_MS_MAX;
  committer.sweep();
  await store.writeAll();
  assert.deepEqual(new Set(store.plants.keys()), begun);
});

Deno.test("a create whose commit landed late is answered replayed when it is repeated", async () => {
  const { store, clock, committer, create } = setUp();
  const first = create(1);
  clock.now = COMMIT_MS_MAX;
  committer.sweep();
  await store.writeAll();
  const again = create(1);
  await store.writeAll();
  assert.deepEqual([first.outcome, again.outcome], ["failed", "replayed"]);
});

Deno.test("create() tries again while the store is busy, and reports nothing", async () => {
  const { store, clock, reports, create } = setUp();
  const answered = create(1);
  for (let i = 0; i < 20; i++) {
    store.next().answer("busy");
    await settled();
    assert.equal(answered.outcome, undefined);
    assert.equal(store.asked.length, 0, "no rest between two tries");
    await clock.wake();
  }
  await store.write();
  assert.equal(answered.outcome, "stored");
  assert.deepEqual(reports, []);
});

Deno.test("create() stops trying a busy store at the deadline", async () => {
  const { store, clock, committer, create } = setUp();
  const answered = create(1);
  store.next().answer("busy");
  await settled();
  clock.now = COMMIT_MS_MAX;
  committer.sweep();
  await clock.wake();
  // A try that had begun may end; there is none after it.
  for (const { answer } of store.asked.splice(0)) answer("busy");
  await settled();
  assert.equal(answered.outcome, "failed");
  assert.deepEqual([store.asked.length, clock.sleeps.length], [0, 0]);

  const again = create(1);
  await store.writeAll();
  assert.equal(again.outcome, "stored");
});

Deno.test("a store that fails is reported once, and once when it is well", async () => {
  const { store, reports, create } = setUp();
  const outcomes: (Outcome | undefined)[] = [];
  for (let id = 0; id < 5; id++) {
    const answered = create(id);
    store.next().fail("database or disk is full");
    await settled();
    outcomes.push(answered.outcome);
  }
  assert.deepEqual(outcomes, Array.from({ length: 5 }, () => "failed"));
  assert.deepEqual(reports, ["database or disk is full"]);
  for (let id = 0; id < 5; id++) {
    create(id);
    await store.writeAll();
  }
  assert.deepEqual(reports, ["database or disk is full", undefined]);
  create(9);
  store.next().fail("again");
  await settled();
  assert.deepEqual(reports, ["database or disk is full", undefined, "again"]);
});

Deno.test("a store that does not answer is reported once, and once when it is well", async () => {
  const { store, clock, reports, committer, create } = setUp();
  create(1);
  for (let i = 1; i <= 5; i++) {
    clock.now = i * COMMIT_MS_MAX;
    committer.sweep();
  }
  assert.equal(reports.length, 1);
  assert.match(String(reports[0]), /no answer within 5 s/);
  await store.writeAll();
  assert.equal(reports.length, 2);
  assert.equal(reports[1], undefined);
});

Deno.test("one commit that hangs beside others that succeed is not reported at every sweep", async () => {
  const { store, clock, reports, committer, create } = setUp(1);
  create(1);
  const hanging = store.next();
  for (let i = 1; i <= 5; i++) {
    clock.now = i * COMMIT_MS_MAX;
    committer.sweep();
    // Two, so that one of them fills a batch whatever the others do.
    const answered = [create(2 * i), create(2 * i + 1)];
    await store.writeAll();
    assert.deepEqual(answered, [{ outcome: "stored" }, { outcome: "stored" }]);
  }
  assert.deepEqual(reports.length, 2, reports.join());
  hanging.answer("committed");
  await settled();
  assert.deepEqual(reports.length, 2, reports.join());
});

Deno.test("what a look at the files finds is reported when it changes, and before a create meets it", async () => {
  const { store, reports, committer, create } = setUp();
  const look = (problem: string | undefined) => {
    store.problem = problem;
    for (let i = 0; i < 3; i++) committer.sweep();
  };
  look(undefined);
  assert.deepEqual(reports.splice(0), []);
  look("deleted");
  assert.deepEqual(reports.splice(0), ["deleted"]);
  assert.ok(committer.isFailing);

  create(1);
  store.next().fail("deleted");
  await settled();
  assert.deepEqual(reports.splice(0), []);
  look("replaced");
  assert.deepEqual(reports.splice(0), ["replaced"]);
  look(undefined);
  assert.deepEqual(reports.splice(0), [undefined]);
  assert.ok(!committer.isFailing);
});

Deno.test("what a create met is not reported again by a look that finds the same", async () => {
  const { store, reports, committer, create } = setUp();
  create(1);
  store.next().fail("deleted");
  await settled();
  store.problem = "deleted";
  committer.sweep();
  assert.deepEqual(reports, ["deleted"]);
});

Deno.test("the last commit that may be in flight waits for a full batch", async () => {
  const { store, create } = setUp(10);
  create(1);
  for (let id = 2; id <= 10; id++) create(id);
  assert.equal(store.asked.length, 1);
  create(11);
  assert.equal(store.asked.length, 2);
  await store.writeAll();
});

Deno.test("a failed commit answers failed to its own creates only", async () => {
  const { store, create } = setUp();
  const first = create(1);
  const same = create(1);
  const other = create(1, { name: "Ficus" });
  store.next().fail("disk I/O error");
  await settled();
  // What followed is tried for itself: nothing was stored before it.
  await store.writeAll();
  assert.deepEqual(
    [first.outcome, same.outcome, other.outcome],
    ["failed", "stored", "conflict"],
  );
});

Deno.test("a failed read answers failed, and the id can be created after it", async () => {
  const { store, reports, create } = setUp();
  store.plants.set(1n, { name: "Monstera" });
  const { read } = store;
  store.read = () => Promise.reject(new TypeError("disk I/O error"));
  const failed = create(1);
  await store.writeAll();
  assert.equal(failed.outcome, "failed");
  assert.deepEqual(reports, ["disk I/O error"]);
  store.read = read;
  const again = create(1);
  await store.writeAll();
  assert.equal(again.outcome, "replayed");
});

Deno.test("a failed check for a write of our own that landed is answered replayed", async () => {
  const { store, create } = setUp();
  const answered = create(1);
  store.plants.set(1n, { name: "Monstera" });
  store.next().answer("exists");
  await settled();
  assert.equal(answered.outcome, "replayed");
});

Deno.test("a failed check answers those that exist and commits the rest", async () => {
  const { store, create } = setUp();
  store.plants.set(2n, { name: "Monstera" });
  store.plants.set(3n, { name: "Ficus" });
  store.plants.set(4n, null);
  const blocker = create(0);
  const answered = [1, 2, 3, 4].map((id) => create(id));
  await store.writeAll();
  assert.equal(blocker.outcome, "stored");
  assert.deepEqual(
    answered.map(({ outcome }) => outcome),
    ["stored", "replayed", "conflict", "conflict"],
  );
  assert.deepEqual(store.plants.get(1n), { name: "Monstera" });
});

Deno.test("no tag and an empty tag are two plants", async () => {
  const { store, create } = setUp();
  const plants: Plant[] = [
    { name: "Monstera" },
    { name: "Monstera", tag: "" },
    { name: "Monstera" },
    { name: "monstera" },
    { name: "Monstera", tag: "climber" },
  ];
  const answered = plants.map((plant) => create(1, plant));
  await store.writeAll();
  const expected = ["stored", "conflict", "replayed", "conflict", "conflict"];
  assert.deepEqual(answered.map(({ outcome }) => outcome), expected);
  // The same from the store as from memory.
  for (const [i, plant] of plants.entries()) {
    const again = create(1, plant);
    await store.writeAll();
    assert.equal(again.outcome, i === 0 ? "replayed" : expected[i]);
  }
});
