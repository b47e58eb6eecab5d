/** A store that is deleted, moved or replaced under a service, which saves it. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import {
  inParallel,
  Ledger,
  newPlants,
  occurrences,
  PLANT,
  range,
  toBody,
} from "../support/load.ts";
import {
  assertOneLine,
  assertSucceeded,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { test } from "../support/tests.ts";
import { exportLines, storeLines } from "../support/transfer.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;
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
  await inParallel(range(1_000_001n, 20), async (id) => {
    const { error } = await ledger.send(program, { id, plant: PLANT });
    assert.equal(error, STORE_FAILED);
  });
  assert.equal(await statusOf(program.get("/readyz")), 503);
  assert.equal(await statusOf(program.get("/livez")), 200);
}

/** Asserts that a start refuses to create an empty store. */
async function assertStartNames(
  path: string,
  { saved }: Advice,
): Promise<void> {
  assertOneLine(
    await runProgram(["--port", "0", "--kv", path]),
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
  await ledger.settle(program);
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(path);
}

/** Imports saved plants as advised, and starts the service with them. */
async function assertImported(
  { args }: Advice,
  path: string,
  ledger: Ledger,
): Promise<void> {
  assertSucceeded(await runProgram(args));
  await assertRestored(path, ledger);
}

/** Creates plants and waits for them. */
function create(
  program: Program,
  ledger: Ledger,
  first: bigint,
): Promise<void> {
  return ledger.store(program, newPlants(range(first, 100)));
}

/** The plant in a store that replaces another one. */
const OTHER = { id: 7_000_000n, plant: PLANT };

function remove(...suffixes: string[]): (path: string) => void {
  return (path) => {
    const real = Deno.realPathSync(path);
    for (const suffix of suffixes) Deno.removeSync(real + suffix);
  };
}

/** Accidents under a running service, and what the log says. */
const ACCIDENTS: readonly [
  name: string,
  act: (path: string) => void | Promise<void>,
  problem: string,
  /** What is in place of the store when the service has stopped. */
  leaves: "nothing" | "the store" | "another store",
][] = [
  ["a deleted database", remove(""), "it was deleted or moved", "nothing"],
  [
    "a database that is deleted with the files beside it",
    remove("", "-wal", "-shm"),
    "it was deleted or moved",
    "nothing",
  ],
  [
    "a moved database",
    (path) => Deno.renameSync(Deno.realPathSync(path), `${path}.away`),
    "it was deleted or moved",
    "nothing",
  ],
  [
    "a replaced database",
    async (path) => {
      const other = `${path}.other`;
      await storeLines(other, [toBody(OTHER)]);
      Deno.renameSync(other, Deno.realPathSync(path));
    },
    "it was replaced",
    "another store",
  ],
  [
    "a deleted log",
    remove("-wal"),
    "its real.db-wal was deleted or replaced",
    "the store",
  ],
  [
    "a deleted index of the log",
    remove("-shm"),
    "its real.db-shm was deleted or replaced",
    "the store",
  ],
];

for (const [accident, act, problem, leaves] of ACCIDENTS) {
  test(`${accident} under load fails creates, and no acknowledged plant is lost by doing what the log says, twice in a row`, async ({ store, start, ledger }) => {
    Deno.symlinkSync("real.db", store);
    await ledger.record(OTHER, () => Promise.resolve({ status: 0 }));
    for (const first of [0n, 1_000n]) {
      await using program = await start();
      await create(program, ledger, first);
      let isOver = false;
      const load = inParallel(range(first + 100n, 800), async (id) => {
        if (!isOver) await ledger.send(program, { id, plant: PLANT });
      }, 4);
      await act(store);
      await program.printed(/error: the store fails: .*\n/);
      isOver = true;
      await load;
      assert.ok(program.stderr.includes(`plants.db: ${problem}\n`));
      await assertFails(program, ledger);
      const advice = await savedBy(program, ledger);
      assertSucceeded(await program.stop());
      assert.equal(occurrences(program.stderr, SAVED), 1, program.stderr);

      if (leaves === "nothing") await assertStartNames(store, advice);
      else if (leaves === "the store") await ledger.assertFile(store);
      else {
        // Without anything of the old log.
        assert.deepEqual(await exportLines(store), [toBody(OTHER)]);
      }
      await assertImported(advice, store, ledger);
    }
  });
}

for (const isRunning of [true, false]) {
  const until = isRunning ? "while it runs" : "after its stop";
  test(`a database that is moved away under a service, and back ${until}, has every plant`, async ({ directory, store, start, ledger }) => {
    const away = directory.file("away.db");
    await using program = await start();
    await create(program, ledger, 1n);
    Deno.renameSync(store, away);
    const advice = await savedBy(program, ledger);
    if (isRunning) {
      Deno.renameSync(away, store);
      await assertFails(program, ledger);
    }
    assertSucceeded(await program.stop());
    if (!isRunning) {
      await assertStartNames(store, advice);
      Deno.renameSync(away, store);
    }
    await assertRestored(store, ledger);
  });
}

test("a service that is stopped right after its store was deleted saves the plants before it ends", async ({ store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  assertSucceeded(await program.stop());
  assert.match(program.stderr, /info: stopped\n$/);
  const advice = await savedBy(program, ledger);
  await assertStartNames(store, advice);
  await assertImported(advice, store, ledger);
});

for (const [what, suffix] of [["database", ""], ["log", "-wal"]]) {
  test(`a service whose ${what} was deleted, and that is killed after it has saved the plants, leaves advice that leads to them`, async ({ directory, store, start, ledger }) => {
    await using program = await start();
    await create(program, ledger, 1n);
    Deno.removeSync(`${store}${suffix}`);
    const advice = await savedBy(program, ledger);
    await program.stop("SIGKILL");

    await assertStartNames(store, advice);
    if (what === "database") {
      // The log is not given up for the plants of another store.
      const other = directory.file("other.jsonl");
      Deno.copyFileSync(advice.saved, other);
      const log = `${store}-wal`;
      assertOneLine(
        await runProgram(["import", other, "--kv", store]),
        2,
        `cannot store plants in ${store}: plants.db is missing or empty, but its log is ` +
          `here: ${log}: move the database back, put a backup there with ` +
          "plant-store restore, or move that log away and import the plants",
      );
      assert.ok(Deno.statSync(log).size > 0);
    }
    await assertImported(advice, store, ledger);
  });
}

test("two instances whose store is deleted save a complete file each, and one of them is enough", async ({ store, start, ledger }) => {
  await using one = await start();
  await using two = await start();
  await create(one, ledger, 1n);
  await create(two, ledger, 1_001n);
  Deno.removeSync(store);
  const first = await savedBy(one, ledger);
  const second = await savedBy(two, ledger);
  assert.notEqual(first.saved, second.saved);
  for (const program of [one, two]) assertSucceeded(await program.stop());
  await assertImported(first, store, ledger);
});

/** Waits until a service could not save its plants, and stops it. */
async function stopUnsaved(program: Program, problem: RegExp): Promise<void> {
  await program.printed(problem);
  program.process.kill("SIGTERM");
  await program.printed(/SIGTERM: draining\n/);
}

/** A store that is lost where its plants cannot be saved. */
interface Loss {
  readonly store: string;
  readonly lose: () => void;
  readonly problem: RegExp;
  readonly correct: () => void;
}

/** Stops a service that cannot save its plants, and then corrects that. */
async function assertStopsSaved(
  { store, lose, problem, correct }: Loss,
): Promise<void> {
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", store]);
  await create(program, ledger, 1n);
  lose();
  await stopUnsaved(program, problem);
  correct();
  assertSucceeded(await program.ended());
  assert.equal(occurrences(program.stderr, NOT_SAVED), 1, program.stderr);
  await assertImported(await savedBy(program, ledger), store, ledger);
}

test("a service that cannot save its plants, without a directory or room, says so, and stops when a later attempt succeeds", async ({ directory }) => {
  const data = directory.file("data");
  Deno.mkdirSync(data);
  const losses: Loss[] = [{
    store: `${data}/plants.db`,
    lose: () => Deno.removeSync(data, { recursive: true }),
    problem:
      /error: cannot save the plants in \S+: no directory \S+\/data: correct this while the service runs, which tries again every 10 s, and stops only when they are saved\n/,
    correct: () => Deno.mkdirSync(data),
  }];
  using disk = canMount() ? new SmallDisk(4) : undefined;
  if (disk !== undefined) {
    const store = disk.file("plants.db");
    losses.push({
      store,
      lose: () => {
        disk.fill("ballast");
        Deno.removeSync(store);
      },
      problem: /cannot save the plants in \S+: No space left/,
      correct: () => Deno.removeSync(disk.file("ballast")),
    });
  }
  // Each waits 10 s for the next attempt.
  await Promise.all(losses.map(assertStopsSaved));
});

test("a later signal ends a service that cannot save its plants", async ({ directory }) => {
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
});
