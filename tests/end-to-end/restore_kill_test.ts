/**
 * A killed restore leaves the old store or the new one, and all plants. The main
 * thread replaces the store; kills of the others are those of a backup.
 */
import assert from "node:assert/strict";
import { killPoints, trace } from "../support/kills.ts";
import { eventually, pause, PLANT, range } from "../support/load.ts";
import { Program } from "../support/program.ts";
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
  #new: readonly string[] = [];

  static async create(): Promise<Stores> {
    const stores = new Stores();
    const store = stores.#directory.file("plants.db");
    stores.#old = range(1n, 50)
      .map((id) => toLine(id, PLANT.name, PLANT.tag));
    await createAndKill(store, stores.#old.length);
    const other = stores.#directory.file("other.db");
    stores.#new = await createStore(other, 40, "Restored");
    const { status, stderr } = await backUp(other, stores.backup);
    assert.equal(status, 0, stderr);
    return stores;
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
    const isNew = lines[0] === this.#new[0];
    assertSameLines(lines, isNew ? this.#new : this.#old);
    if (isNew) assert.equal(aside.length, 1, where);
    return isNew;
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

withStrace.test("a restore leaves the old or the new store after a kill at any write, sync, link, rename or removal", async () => {
  using stores = await Stores.create();
  const run = async (kill: readonly string[], where: string) => {
    using directory = new TemporaryDirectory();
    const store = stores.copy(directory);
    const args = ["restore", stores.backup, "--kv", store];
    const { ended, trace: calls } = await trace(args, kill, "main");
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

Deno.test("a restore leaves the old or the new store after a kill at random moments, and the next restore succeeds", async () => {
  using stores = await Stores.create();
  const seed = seedOfRun();
  const random = new Random(seed);
  for (let round = 1; round <= ROUNDS; round++) {
    const where = `round ${round}, SEED=${seed}`;
    using directory = new TemporaryDirectory();
    const store = stores.copy(directory);
    {
      await using program = Program.spawn([
        ...["restore", stores.backup, "--kv", store],
      ]);
      await eventually(
        (it) => it,
        () => Promise.resolve(directory.names().length > 2),
        { everyMs: 1 },
      );
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
