import assert from "node:assert/strict";
import { ERROR } from "../../src/errors.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import { Random, seedOfRun } from "../support/random.ts";
import {
  type Answer,
  drawPlant,
  Ledger,
  occurrences,
  send,
  Tally,
  together,
  until,
} from "../support/load.ts";
import { Program, runProgram, StoreLock, TemporaryDirectory } from "../support/program.ts";

const PLANT = { name: "Monstera", tag: "climber" };

const FAILING = /error: the store fails/g;
const WELL = /info: the store is well again/g;

/** Far more than the service needs, for machines that do other things too. */
const PATIENCE_MS = 15_000;

const isStored = ({ status }: Answer) => status === 200;

/** A small file system in memory, until it is disposed of. */
class SmallDisk implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "plant-store-disk-" });

  /** @throws where this machine does not let us mount */
  constructor(megabytes: number) {
    const args = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs"];
    const mount = new Deno.Command("mount", {
      args: [...args, this.path],
      stderr: "null",
    });
    try {
      if (!mount.outputSync().success) throw new Error("cannot mount");
    } catch (error) {
      Deno.removeSync(this.path);
      throw error;
    }
  }

  [Symbol.dispose](): void {
    new Deno.Command("umount", { args: ["-l", this.path] }).outputSync();
    Deno.removeSync(this.path);
  }
}

function canMount(): boolean {
  try {
    new SmallDisk(1)[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}

Deno.test({
  name:
    "serve: a full disk is 503, nothing acknowledged is lost, and creates work again when there is room",
  ignore: !canMount(),
  fn: async () => {
    using disk = new SmallDisk(24);
    const path = `${disk.path}/plants.db`;
    const ballast = `${disk.path}/ballast`;
    Deno.writeFileSync(ballast, new Uint8Array(20_000_000));
    const ledger = new Ledger();
    {
      await using program = await Program.start(["--kv", path]);

      // Fill it, and go on when it is full.
      const tally = new Tally();
      let id = 0n;
      while (tally.of(ERROR.STORE_FAILED) < 200 && id < 5_000n) {
        const ids = Array.from({ length: 16 }, () => ++id);
        await together(ids, async (id) => {
          const plant = { name: `${id} `.repeat(1_000), tag: "" };
          tally.add(await ledger.send(program, { id, plant }));
        });
      }
      assert.ok(tally.of(200) > 0, "nothing was stored");
      assert.ok(tally.of(ERROR.STORE_FAILED) >= 200, "it never became full");
      assert.deepEqual(Object.keys(tally.counts), [
        "200",
        String(ERROR.STORE_FAILED),
      ]);
      await program.printed(/the store fails: .*full/);

      // A replay needs no room; the store is not well again by that.
      for (let round = 0; round < 3; round++) {
        await ledger.replay(program);
        const plant = { name: `${++id} `.repeat(1_000), tag: "" };
        const answer = await ledger.send(program, { id, plant });
        assert.equal(answer.error, ERROR.STORE_FAILED);
      }

      // It is alive, and all that it acknowledged is there.
      const elsewhere = await fetch(`${program.origin}/nowhere`);
      assert.equal(elsewhere.status, 404);
      await elsewhere.body?.cancel();

      Deno.removeSync(ballast);
      await until(
        isStored,
        () => ledger.send(program, { id: ++id, plant: PLANT }),
        { withinMs: PATIENCE_MS },
      );
      await program.printed(/the store is well again/);
      await ledger.replay(program);
      // What was answered 503 can be sent again.
      await together(ledger.ambiguous, async ([id, plant]) => {
        assert.ok(isStored(await ledger.send(program, { id, plant })));
      }, 1);
      assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
      assert.equal(occurrences(program.stderr, WELL), 1, program.stderr);
      assert.equal((await program.stop()).status, 0);
    }
    await ledger.assertFile(path);
  },
});

Deno.test({
  name: "serve: a full disk that has its log too does not end it",
  ignore: !canMount(),
  fn: async () => {
    using disk = new SmallDisk(4);
    const log = `${disk.path}/log`;
    const ballast = `${disk.path}/ballast`;
    await using program = Program.spawn(
      ["--port", "0", "--kv", `${disk.path}/plants.db`],
      { shell: `exec "$0" "$@" 2>>${log}` },
    );
    program.origin = await until(
      (origin) => origin !== "",
      async () => {
        const text = await Deno.readTextFile(log).catch(() => "");
        return /listens on (\S+)\n/.exec(text)?.[1] ?? "";
      },
      { withinMs: PATIENCE_MS },
    );
    fill(ballast);
    for (let id = 1n; id <= 20n; id++) {
      const plant = { name: "x".repeat(10_000) };
      const { error } = await send(program, { id, plant });
      assert.equal(error, ERROR.STORE_FAILED);
    }
    const alive = await fetch(`${program.origin}/livez`);
    assert.equal(alive.status, 200);
    await alive.body?.cancel();
    Deno.removeSync(ballast);
    await until(
      isStored,
      () => send(program, { id: 1n, plant: { name: "x".repeat(10_000) } }),
      { withinMs: PATIENCE_MS },
    );
    assert.equal((await program.stop()).status, 0);
    assert.match(Deno.readTextFileSync(log), /the store is well again/);
  },
});

/** Writes a file until the disk is full. */
function fill(path: string): void {
  using file = Deno.openSync(path, { write: true, create: true });
  for (const bytes of [64 * 1024, 1]) {
    try {
      for (;;) file.writeSync(new Uint8Array(bytes));
    } catch {
      // Full, for pieces of that size.
    }
  }
}

Deno.test("serve: a deleted database file is 503, logged once, and no restart throws its log away", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  {
    await using program = await Program.start(["--kv", path]);
    assert.equal((await send(program, { id: 1n, plant: PLANT })).status, 200);
    Deno.removeSync(path);
    await assertRefuses(program, /the store fails: .*plants\.db was deleted/g);
    await program.stop();
  }
  const { status, stderr } = await runProgram(["--port", "0", "--kv", path]);
  assert.match(
    stderr,
    /^plant-store: .*plants\.db is gone, but .*plants\.db-wal still has .*\n$/,
  );
  assert.equal(status, 2);
  Deno.removeSync(`${path}-wal`);
  Deno.removeSync(`${path}-shm`);
  await using program = await Program.start(["--kv", path]);
  assert.equal((await send(program, { id: 2n, plant: PLANT })).status, 200);
  await program.stop();
  const stored = new Ledger();
  stored.sent.set(2n, [PLANT]);
  stored.acknowledged.set(2n, PLANT);
  assert.equal(await stored.assertFile(path), 1);
});

Deno.test("serve: a database file that was away for a while loses nothing", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const away = directory.file("away.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  await ledger.send(program, { id: 1n, plant: PLANT });
  Deno.renameSync(path, away);
  const refused = await send(program, { id: 2n, plant: PLANT });
  assert.equal(refused.error, ERROR.STORE_FAILED);
  await program.printed(/the store fails: .*plants\.db was deleted/);
  Deno.renameSync(away, path);
  for (const id of [2n, 3n]) {
    const answer = await ledger.send(program, { id, plant: PLANT });
    assert.equal(answer.status, 200);
  }
  await program.printed(/the store is well again/);
  await ledger.replay(program);
  await program.stop();
  assert.equal(await ledger.assertFile(path), 3);
});

Deno.test("serve: a database file that is back without its log is not taken for well", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const away = directory.file("away.db");
  await using program = await Program.start(["--kv", path]);
  assert.equal((await send(program, { id: 1n, plant: PLANT })).status, 200);
  Deno.renameSync(path, away);
  const refused = await send(program, { id: 2n, plant: PLANT });
  assert.equal(refused.error, ERROR.STORE_FAILED);
  Deno.removeSync(`${path}-wal`);
  Deno.renameSync(away, path);
  const other = await send(program, { id: 3n, plant: PLANT });
  assert.equal(other.error, ERROR.STORE_FAILED);
  assert.equal(occurrences(program.stderr, WELL), 0, program.stderr);
  await program.stop();
});

Deno.test("serve: what becomes of a database file is logged while no create comes", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const other = directory.file("other.db");
  await storeAPlant(other);
  await using program = await Program.start(["--kv", path]);
  Deno.renameSync(path, directory.file("away.db"));
  await program.printed(/the store fails: .*plants\.db was deleted/);
  Deno.renameSync(directory.file("away.db"), path);
  await program.printed(/the store is well again/);
  Deno.removeSync(path);
  await program.printed(/was deleted[^]*well again[^]*was deleted/);
  Deno.renameSync(other, path);
  await program.printed(/the store fails: .*plants\.db was replaced/);
  assert.equal(occurrences(program.stderr, FAILING), 3, program.stderr);
  await program.stop();
});

Deno.test("serve: a replaced database file is 503, logged once, and a restart opens the new one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const other = directory.file("other.db");
  const ledger = await storeAPlant(other);
  {
    await using program = await Program.start(["--kv", path]);
    assert.equal((await send(program, { id: 1n, plant: PLANT })).status, 200);
    Deno.renameSync(other, path);
    await assertRefuses(
      program,
      /the store fails: .*plants\.db was .*replaced/g,
    );
    await program.stop();
  }
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  const id8 = await ledger.send(program, { id: 8n, plant: PLANT });
  assert.equal(id8.status, 200);
  await program.stop();
  assert.equal(await ledger.assertFile(path), 2);
});

for (
  const [also, storeIn] of [["", plainStore], [
    ", through a link",
    linkedStore,
  ]] as const
) {
  Deno.test(`serve: a deleted log of SQLite is 503, and a restart has what was acknowledged${also}`, async () => {
    using directory = new TemporaryDirectory();
    const path = storeIn(directory);
    const ledger = new Ledger();
    {
      await using program = await Program.start(["--kv", path]);
      await ledger.send(program, { id: 100n, plant: PLANT });
      Deno.removeSync(`${directory.file("plants.db")}-wal`);
      // The service looks for it now and then, and when it is asked.
      const ready = await fetch(`${program.origin}/readyz`);
      assert.equal(ready.status, 503);
      await ready.body?.cancel();
      await assertRefuses(
        program,
        /the store fails: .*plants\.db-wal was deleted/g,
      );
      await program.stop();
    }
    await using program = await Program.start(["--kv", path]);
    await ledger.replay(program);
    await program.stop();
  });

  Deno.test(`serve: a database file replaced while no create came is whole after a restart${also}`, async () => {
    using directory = new TemporaryDirectory();
    const path = storeIn(directory);
    const other = directory.file("other.db");
    const ledger = await storeAPlant(other);
    {
      await using program = await Program.start(["--kv", path]);
      assert.equal((await send(program, { id: 1n, plant: PLANT })).status, 200);
      Deno.renameSync(other, directory.file("plants.db"));
      await program.stop();
    }
    await using program = await Program.start(["--kv", path]);
    await ledger.replay(program);
    await program.stop();
    assert.equal(await ledger.assertFile(path), 1);
  });
}

/** Makes a store with one plant in it. */
async function storeAPlant(path: string): Promise<Ledger> {
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  await ledger.send(program, { id: 7n, plant: PLANT });
  await program.stop();
  return ledger;
}

function plainStore(directory: TemporaryDirectory): string {
  return directory.file("plants.db");
}

/** The store behind a link in another directory. */
function linkedStore(directory: TemporaryDirectory): string {
  Deno.mkdirSync(directory.file("links"));
  const link = directory.file("links/plants.db");
  Deno.symlinkSync(directory.file("plants.db"), link);
  return link;
}

/** No create is acknowledged, new or known, and one line says why. */
async function assertRefuses(program: Program, line: RegExp): Promise<void> {
  const ids = Array.from({ length: 20 }, (_, i) => BigInt(i + 1));
  for (const pass of [1, 2]) {
    await together(ids, async (id) => {
      const answer = await send(program, { id, plant: PLANT });
      assert.deepEqual(
        [answer.status, answer.error],
        [503, ERROR.STORE_FAILED],
        `create ${id} in pass ${pass}`,
      );
      assert.ok(answer.retryAfter !== undefined);
    }, 4);
  }
  assert.equal(occurrences(program.stderr, line), 1, program.stderr);
  assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
  assert.equal(occurrences(program.stderr, WELL), 0, program.stderr);
}

Deno.test("serve: of two processes on one file one wins each id, and no plant is lost", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const seed = seedOfRun();
  const random = new Random(seed);
  const ledger = new Ledger();
  await using one = await Program.start(["--kv", path]);
  await using two = await Program.start(["--kv", path]);
  const programs: readonly [Program, Program] = [one, two];
  const ids = Array.from({ length: 1_000 }, (_, i) => BigInt(i) - 500n);
  const wins = [0, 0];
  await together(ids, async (id) => {
    const plants = programs.map((_, i) => {
      const plant = drawPlant(random);
      return { ...plant, name: `${i} ${plant.name}` };
    });
    const statuses = await Promise.all(programs.map(async (program, i) => {
      const { status } = await ledger.send(program, {
        id,
        plant: plants[i] ?? PLANT,
      });
      return status;
    }));
    assert.deepEqual(statuses.toSorted(), [200, 409], `${id}, SEED=${seed}`);
    const winner = statuses.indexOf(200);
    wins[winner] = (wins[winner] ?? 0) + 1;
  }, 32);
  assert.ok(wins.every((count) => count > 0), `not a race: ${wins}`);
  // Each finds what the other stored.
  for (const program of programs) await ledger.replay(program);
  for (const program of programs) {
    assert.equal(occurrences(program.stderr, FAILING), 0, program.stderr);
    assert.equal((await program.stop()).status, 0);
  }
  assert.equal(await ledger.assertFile(path), ids.length);
});

Deno.test("serve: a lock of another process makes creates wait no longer than the deadline", async () => {
  await Promise.all(
    (["IMMEDIATE", "EXCLUSIVE"] as const).map(assertWaitsForLock),
  );
});

/** A lock as SQLite calls it, held by another process until creates time out. */
async function assertWaitsForLock(
  kind: "IMMEDIATE" | "EXCLUSIVE",
): Promise<void> {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  assert.ok(isStored(await ledger.send(program, { id: 0n, plant: PLANT })));
  const ids = Array.from({ length: 50 }, (_, i) => BigInt(i + 1));

  {
    using lock = new StoreLock(path, kind);
    const startMs = performance.now();
    await Promise.all(ids.map(async (id) => {
      const answer = await ledger.send(program, { id, plant: PLANT });
      assert.equal(answer.error, ERROR.STORE_FAILED);
    }));
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs < COMMIT_MS_MAX + PATIENCE_MS, `took ${tookMs} ms`);
    assert.ok(tookMs >= COMMIT_MS_MAX, `gave up after ${tookMs} ms`);

    // What waits when the lock goes is stored.
    const waiting = ids.map((id) =>
      ledger.send(program, { id: id + 100n, plant: PLANT })
    );
    await fetch(`${program.origin}/nowhere`).then((it) => it.body?.cancel());
    lock[Symbol.dispose]();
    assert.ok((await Promise.all(waiting)).every(isStored));
  }

  await together(ids, async (id) => {
    assert.ok(isStored(await ledger.send(program, { id, plant: PLANT })));
  });
  assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
  assert.equal(occurrences(program.stderr, WELL), 1, program.stderr);
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(path);
}
