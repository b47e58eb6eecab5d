/** A store that is deleted, moved or replaced under a service, which saves it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import {
  inParallel,
  isStored,
  Ledger,
  occurrences,
  PLANT,
} from "../support/load.ts";
import {
  assertOneLine,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;
const IS_WINDOWS = Deno.build.os === "windows";

const FAILING = /error: the store fails: /g;
const NOT_SAVED = /error: cannot save the plants in /g;
const SAVED =
  /error: saved all plants \((\d+)\) in (\S+): stop the service, run "plant-store ([^"]+)" as the user of the service, and start it again\n/g;

/** What a service that has lost its store tells the operator. */
interface Advice {
  /** The file with the plants. */
  readonly saved: string;
  /** The arguments of the command to type. */
  readonly args: readonly string[];
}

/** Waits until a service has saved its plants; it logs that once. */
async function savedBy(program: Program, plants: Ledger): Promise<Advice> {
  await program.printed(new RegExp(SAVED.source));
  const [[, count, saved = "", command = ""] = [], ...others] = [
    ...program.stderr.matchAll(SAVED),
  ];
  assert.deepEqual(others, []);
  assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
  const { mode } = Deno.statSync(saved);
  assert.equal((mode ?? 0) & 0o777, 0o600);

  const lines = Deno.readTextFileSync(saved).split("\n");
  assert.equal(lines.pop(), "");
  assert.equal(lines.length, Number(count));
  const unsaved = new Map(plants.acknowledged);
  for (const line of lines) {
    const { id, ...plant } = JSON.parse(line);
    assert.deepEqual(plant, plants.sent.get(BigInt(id))?.[0]?.plant);
    unsaved.delete(BigInt(id));
  }
  assert.deepEqual([...unsaved.keys()], []);
  return { saved, args: command.split(" ") };
}

/** Asserts that every create fails from now on, and the readiness. */
async function assertFails(program: Program, ledger: Ledger): Promise<void> {
  await inParallel(ids(1_000_001, 20), async (id) => {
    const { error } = await ledger.send(program, { id, plant: PLANT });
    assert.equal(error, STORE_FAILED);
  });
  assert.equal(await statusOf(program.get("/readyz")), 503);
  assert.equal(await statusOf(program.get("/livez")), 200);
}

/** Asserts that a start refuses to create an empty store. */
async function assertStartNames(path: string, saved: string): Promise<void> {
  await using program = Program.spawn(["--port", "0", "--kv", path]);
  assertOneLine(
    await program.ended(),
    2,
    `cannot store plants in ${path}: it is missing or empty, and its ` +
      `plants are in ${saved}: run "plant-store import ${saved} --kv ${path}" as the user ` +
      "of the service, or move that file away",
  );
}

/** Starts a service with the store, which has every acknowledged plant. */
async function assertRestored(path: string, ledger: Ledger): Promise<void> {
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  await inParallel(ledger.ambiguous, async ([id, plant]) => {
    assert.ok(isStored(await ledger.send(program, { id, plant })));
  });
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(path);
}

/** Creates plants and waits for them. */
async function create(
  program: Program,
  ledger: Ledger,
  first: number,
): Promise<void> {
  await inParallel(ids(first, 100), async (id) => {
    const plant = { name: `Monstera ${id}` };
    assert.ok(isStored(await ledger.send(program, { id, plant })));
  });
}

function ids(first: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => BigInt(first + i));
}

/** Makes a store with one plant. */
async function makeStore(path: string, id: bigint): Promise<void> {
  using kv = await Deno.openKv(path);
  await kv.set(["plants", id], PLANT);
}

/** An accident under a running service. */
interface Accident {
  readonly act: (path: string) => void | Promise<void>;
  /** What the log names. */
  readonly problem: RegExp;
  /** What is in place of the store when the service has stopped. */
  readonly leaves: "nothing" | "the store" | "another store";
}

function remove(...suffixes: string[]): (path: string) => void {
  return (path) => {
    const real = Deno.realPathSync(path);
    for (const suffix of suffixes) Deno.removeSync(real + suffix);
  };
}

const MISSING = /plants\.db: it was deleted or moved\n/;

const ACCIDENTS: Readonly<Record<string, Accident>> = {
  "a deleted database": {
    act: remove(""),
    problem: MISSING,
    leaves: "nothing",
  },
  "a database that is deleted with the files beside it": {
    act: remove("", "-wal", "-shm"),
    problem: MISSING,
    leaves: "nothing",
  },
  "a moved database": {
    act: (path) => Deno.renameSync(Deno.realPathSync(path), `${path}.away`),
    problem: MISSING,
    leaves: "nothing",
  },
  "a replaced database": {
    async act(path) {
      const other = `${path}.other`;
      await makeStore(other, 7_000_000n);
      Deno.renameSync(other, Deno.realPathSync(path));
    },
    problem: /plants\.db: it was replaced\n/,
    leaves: "another store",
  },
  "a deleted log": {
    act: remove("-wal"),
    problem: /plants\.db: its real\.db-wal was deleted or replaced\n/,
    leaves: "the store",
  },
  "a deleted index of the log": {
    act: remove("-shm"),
    problem: /plants\.db: its real\.db-shm was deleted or replaced\n/,
    leaves: "the store",
  },
};

for (const [accident, { act, problem, leaves }] of Object.entries(ACCIDENTS)) {
  Deno.test({
    name:
      `${accident} under load fails creates, and no acknowledged plant is lost by doing what the log says, twice in a row`,
    ignore: IS_WINDOWS,
    fn: async () => {
      using directory = new TemporaryDirectory();
      const path = directory.file("plants.db");
      Deno.symlinkSync("real.db", path);
      const ledger = new Ledger();
      const other = { id: 7_000_000n, plant: PLANT };
      await ledger.record(other, () => Promise.resolve({ status: 0 }));
      for (let round = 0; round < 2; round++) {
        await using program = await Program.start(["--kv", path]);
        await create(program, ledger, 1_000 * round);
        let isOver = false;
        const load = inParallel(ids(1_000 * round + 100, 800), async (id) => {
          if (!isOver) await ledger.send(program, { id, plant: PLANT });
        }, 4);
        await act(path);
        await program.printed(/error: the store fails: .*\n/);
        isOver = true;
        await load;
        assert.match(program.stderr, problem);
        await assertFails(program, ledger);
        const { saved, args } = await savedBy(program, ledger);
        const { status, stderr } = await program.stop();
        assert.equal(status, 0, stderr);
        assert.equal(occurrences(stderr, SAVED), 1, stderr);

        if (leaves === "nothing") await assertStartNames(path, saved);
        if (leaves === "the store") await ledger.assertFile(path);
        const imported = await runProgram(args);
        assert.equal(imported.status, 0, imported.stderr);
        await assertRestored(path, ledger);
      }
    },
  });
}

Deno.test({
  name:
    "a database that is moved away and back under a service needs no import after a restart",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path]);
    await create(program, ledger, 1);
    Deno.renameSync(path, directory.file("away.db"));
    await savedBy(program, ledger);
    Deno.renameSync(directory.file("away.db"), path);
    await assertFails(program, ledger);
    assert.equal((await program.stop()).status, 0);
    await assertRestored(path, ledger);
  },
});

Deno.test({
  name:
    "a database that was moved away under a service, and back after its stop, has every plant",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    {
      await using program = await Program.start(["--kv", path]);
      await create(program, ledger, 1);
      Deno.renameSync(path, directory.file("away.db"));
      const { saved } = await savedBy(program, ledger);
      assert.equal((await program.stop()).status, 0);
      await assertStartNames(path, saved);
    }
    Deno.renameSync(directory.file("away.db"), path);
    await assertRestored(path, ledger);
  },
});

Deno.test({
  name:
    "a service whose database was replaced starts with the new one, without its old log",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const other = directory.file("other.db");
    await makeStore(other, 7n);
    {
      await using program = await Program.start(["--kv", path]);
      await create(program, new Ledger(), 1);
      Deno.renameSync(other, path);
      await program.printed(/: it was replaced\n/);
      assert.equal((await program.stop()).status, 0);
    }
    await using program = await Program.start(["--kv", path]);
    assert.equal(await statusOf(program.get("/readyz")), 200);
    await program.stop();
    using kv = await Deno.openKv(path);
    const plants = await Array.fromAsync(kv.list({ prefix: ["plants"] }));
    assert.deepEqual(plants.map(({ key }) => key), [["plants", 7n]]);
  },
});

Deno.test({
  name:
    "a service that is stopped right after its store was deleted saves the plants before it ends",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path]);
    await create(program, ledger, 1);
    Deno.removeSync(path);
    const { status, stderr } = await program.stop();
    assert.equal(status, 0, stderr);
    assert.match(stderr, /info: stopped\n$/);
    const { saved, args } = await savedBy(program, ledger);
    await assertStartNames(path, saved);
    assert.equal((await runProgram(args)).status, 0);
    await assertRestored(path, ledger);
  },
});

Deno.test({
  name:
    "a service that is killed after it has saved the plants leaves advice that leads to them",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path]);
    await create(program, ledger, 1);
    Deno.removeSync(path);
    const { saved, args } = await savedBy(program, ledger);
    await program.stop("SIGKILL");

    await assertStartNames(path, saved);
    const other = directory.file("other.jsonl");
    Deno.copyFileSync(saved, other);
    const log = `${path}-wal`;
    assertOneLine(
      await runProgram(["import", other, "--kv", path]),
      2,
      `cannot store plants in ${path}: plants.db is missing or empty, but its log is ` +
        `here: ${log}: move the database back, put a backup there with ` +
        "plant-store restore, or move that log away and import the plants",
    );
    assert.ok(Deno.statSync(log).size > 0);
    assert.equal((await runProgram(args)).status, 0);
    await assertRestored(path, ledger);
  },
});

Deno.test({
  name:
    "a service whose log was deleted, and that is killed after it has saved the plants, does not start empty",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path]);
    await create(program, ledger, 1);
    Deno.removeSync(`${path}-wal`);
    const { saved, args } = await savedBy(program, ledger);
    await program.stop("SIGKILL");

    await assertStartNames(path, saved);
    assert.equal((await runProgram(args)).status, 0);
    await assertRestored(path, ledger);
  },
});

Deno.test({
  name:
    "two instances whose store is deleted save a complete file each, and one of them is enough",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using one = await Program.start(["--kv", path]);
    await using two = await Program.start(["--kv", path]);
    await create(one, ledger, 1);
    await create(two, ledger, 1_001);
    Deno.removeSync(path);
    const first = await savedBy(one, ledger);
    const second = await savedBy(two, ledger);
    assert.notEqual(first.saved, second.saved);
    for (const program of [one, two]) {
      assert.equal((await program.stop()).status, 0);
    }
    assert.equal((await runProgram(first.args)).status, 0);
    await assertRestored(path, ledger);
  },
});

/** Waits until a service could not save its plants, and stops it. */
async function stopUnsaved(program: Program, problem: RegExp): Promise<void> {
  await program.printed(problem);
  program.process.kill("SIGTERM");
  await program.printed(/SIGTERM: draining\n/);
}

/** Deletes the directory of a store, and makes it again during the stop. */
async function loseDirectory(): Promise<void> {
  using directory = new TemporaryDirectory();
  const data = directory.file("data");
  const path = `${data}/plants.db`;
  Deno.mkdirSync(data);
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  await create(program, ledger, 1);
  Deno.removeSync(data, { recursive: true });
  await stopUnsaved(
    program,
    /error: cannot save the plants in \S+: no directory \S+\/data: correct this while the service runs, which tries again every 10 s, and stops only when they are saved\n/,
  );
  Deno.mkdirSync(data);
  await assertStopsSaved(program, path, ledger);
}

/** Deletes a store on a full disk, and frees space during the stop. */
async function loseStoreOnFullDisk(): Promise<void> {
  using disk = new SmallDisk(4);
  const path = disk.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  await create(program, ledger, 1);
  const ballast = disk.fill("ballast");
  Deno.removeSync(path);
  await stopUnsaved(program, /cannot save the plants in \S+: No space left/);
  Deno.removeSync(ballast);
  await assertStopsSaved(program, path, ledger);
}

async function assertStopsSaved(
  program: Program,
  path: string,
  ledger: Ledger,
): Promise<void> {
  const { status, stderr } = await program.ended();
  assert.equal(status, 0, stderr);
  assert.equal(occurrences(stderr, NOT_SAVED), 1, stderr);
  const { args } = await savedBy(program, ledger);
  assert.equal((await runProgram(args)).status, 0);
  await assertRestored(path, ledger);
}

Deno.test({
  name:
    "a service that cannot save its plants, without a directory or room, says so, and stops when a later attempt succeeds",
  ignore: IS_WINDOWS,
  fn: async () => {
    // Each waits 10 s for the next attempt.
    const lost = [loseDirectory()];
    if (canMount()) lost.push(loseStoreOnFullDisk());
    await Promise.all(lost);
  },
});

Deno.test({
  name: "a later signal ends a service that cannot save its plants",
  ignore: IS_WINDOWS,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const data = directory.file("data");
    Deno.mkdirSync(data);
    await using program = await Program.start(["--kv", `${data}/plants.db`]);
    Deno.removeSync(data, { recursive: true });
    await stopUnsaved(program, NOT_SAVED);
    // The first of these count as the signal above.
    const again = setInterval(() => void program.stop(), 100);
    const { status, stderr } = await program.ended()
      .finally(() => clearInterval(again));
    assert.equal(status, 1, stderr);
  },
});
