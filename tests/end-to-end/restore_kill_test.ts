/** A killed restore leaves the old store or the new one, and all plants. */
import assert from "node:assert/strict";
import { killPoints, trace } from "../support/kills.ts";
import {
  eventually,
  isStored,
  pause,
  PLANT,
  range,
  send,
} from "../support/load.ts";
import { overwrite } from "../support/damage.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { numberFromEnv, Random, seedOfRun } from "../support/random.ts";
import { withStrace } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  assertSameLines,
  backUp,
  createAndKill,
  createStore,
  exportLines,
  restore,
  toLine,
} from "../support/transfer.ts";

const ROUNDS = numberFromEnv("KILL_ROUNDS", 6);

/** Kills at writes: the others do what the first ones do. */
const WRITE_KILLS_MAX = 4;

/** Maximum delay of a random kill after the copy was begun. */
const KILL_DELAY_MS_MAX = 150;

/** What a restore may leave beside the store. */
const LEFTOVER =
  /^plants\.db(\.[0-9a-f]{8}\.partial|\.replaced-[-\dT.]+Z|-wal|-shm|-journal)$/;

/** The plants of the killed store and of the backup, and their files. */
class Stores implements Disposable {
  readonly #directory = new TemporaryDirectory();
  readonly backup = this.#directory.file("backup.db");
  #old: readonly string[] = [];
  /** The lines of the backup. */
  backedUp: readonly string[] = [];

  static async create(): Promise<Stores> {
    const stores = new Stores();
    const store = stores.#directory.file("plants.db");
    stores.#old = range(1n, 50)
      .map((id) => toLine(id, PLANT.name, PLANT.tag));
    await createAndKill(store, stores.#old.length);
    const other = stores.#directory.file("other.db");
    stores.backedUp = await createStore(other, 40, "Restored");
    assertSucceeded(await backUp(other, stores.backup));
    return stores;
  }

  /** Adds many plants to the killed store, and damages them. */
  async damage(): Promise<void> {
    const store = this.#directory.file("plants.db");
    for (const suffix of ["", "-wal", "-shm"]) {
      Deno.removeSync(store + suffix);
    }
    await createStore(store, 2_000);
    await using program = await Program.start(["--kv", store]);
    assert.ok(isStored(await send(program, { id: -1n, plant: PLANT })));
    await program.stop("SIGKILL");
    overwrite(store, 20 * 4_096, 4_096);
  }

  /** Makes the killed store in a directory; returns its path. */
  copy(directory: TemporaryDirectory): string {
    for (const suffix of ["", "-wal"]) {
      const name = `plants.db${suffix}`;
      Deno.copyFileSync(this.#directory.file(name), directory.file(name));
    }
    return directory.file("plants.db");
  }

  /**
   * Asserts that the store is the old or the new one, complete, and that the
   * plants of the old one are not lost.
   * @returns whether it is the new one
   */
  async assertComplete(
    directory: TemporaryDirectory,
    where: string,
  ): Promise<boolean> {
    const names = directory.names().filter((name) => name !== "plants.db");
    for (const name of names) assert.match(name, LEFTOVER, where);
    const aside = names.filter((name) => name.includes(".replaced-"));
    for (const name of aside) {
      assertSameLines(await exportLines(directory.file(name)), this.#old);
    }
    const lines = await exportLines(directory.file("plants.db"));
    const isNew = lines[0] === this.backedUp[0];
    assertSameLines(lines, isNew ? this.backedUp : this.#old);
    if (isNew) assert.equal(aside.length, 1, where);
    return isNew;
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

withStrace.test("a restore leaves the old or the new store after a kill at a sync, link, rename, removal or one of the first writes", async () => {
  using stores = await Stores.create();
  const run = async (kill: readonly string[], where: string) => {
    using directory = new TemporaryDirectory();
    const store = stores.copy(directory);
    const args = ["restore", stores.backup, "--kv", store];
    const { ended, trace: calls } = await trace(args, kill);
    const isNew = await stores.assertComplete(directory, where);
    return { ended, isNew, calls };
  };
  const { ended, isNew, calls } = await run([], "the whole run");
  assert.equal(ended.status, 0, ended.stderr);
  assert.ok(isNew);

  const points = killPoints(calls, WRITE_KILLS_MAX);
  let [kills, restored] = [0, 0];
  for (const [name, expression] of points) {
    const { ended, isNew } = await run([expression], name);
    if (ended.signal === null) {
      assert.equal(ended.status, 0, `${name}: ${ended.stderr}`);
      continue;
    }
    kills++;
    if (isNew) restored++;
  }
  // This thread, or one of Deno, removes the two files beside the copy.
  assert.ok(kills >= points.size - 2, `${kills} of ${points.size}`);
  assert.ok(restored > 0, "no kill came after the new store was in place");
});

withStrace.test("a restore over a corrupt store leaves that with its log, or the new one, after a kill at any call", async () => {
  using stores = await Stores.create();
  await stores.damage();
  /** The contents of a file and of the log beside it. */
  const pair = (directory: TemporaryDirectory, name: string) => {
    const files = snapshot(directory.path);
    return [files[name], files[`${name}-wal`]];
  };
  const run = async (kill: readonly string[], where: string) => {
    using directory = new TemporaryDirectory();
    const store = stores.copy(directory);
    const before = pair(directory, "plants.db");
    const args = ["restore", stores.backup, "--kv", store];
    const traced = await trace(args, kill);
    // Without its log, a service would start with the old store.
    const [database, log] = pair(directory, "plants.db");
    if (database === before[0]) assert.equal(log, before[1], where);
    else {
      const kept = directory.names().find((name) => /\dZ$/.test(name)) ?? "";
      assert.deepEqual(pair(directory, kept), before, where);
    }
    assertSucceeded(await restore(store, stores.backup));
    assertSameLines(await exportLines(store), stores.backedUp);
    return traced;
  };
  const { ended, trace: calls } = await run([], "the whole run");
  assertSucceeded(ended);
  for (const [name, expression] of killPoints(calls, 0)) {
    await run([expression], name);
  }
});

Deno.test("a restore leaves the old or the new store after a kill at random moments, and the next restore succeeds", async () => {
  using stores = await Stores.create();
  const seed = seedOfRun();
  const random = new Random(seed);
  for (let round = 1; round <= ROUNDS; round++) {
    const where = `round ${round}, SEED=${seed}`;
    using directory = new TemporaryDirectory();
    const store = stores.copy(directory);
    {
      const args = ["restore", stores.backup, "--kv", store];
      await using program = Program.spawn(args);
      const hasBegun = () => directory.names().length > 2;
      await eventually((it) => it, hasBegun, { everyMs: 1 });
      await pause(random.int(0, KILL_DELAY_MS_MAX));
      const { signal, status } = await program.stop("SIGKILL");
      assert.ok(signal === "SIGKILL" || status === 0, where);
    }
    await stores.assertComplete(directory, where);
    const { status, stderr } = await restore(store, stores.backup);
    assert.equal(status, 0, stderr);
    assert.match(stderr, /^restored 40 entries from /);
  }
});
