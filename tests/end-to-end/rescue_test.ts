/** A store that is deleted, moved or replaced under a service, which saves it. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { API_ERRORS } from "../../src/api_errors.ts";
import { exists } from "../../src/files/file_system.ts";
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
import { snapshot } from "../support/snapshot.ts";
import { assertInjected, traced, withStrace } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";
import { storeLines } from "../support/transfer.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;
const FAILING = /error: the store fails: /g;
const NOT_SAVED = /error: cannot save the plants in /g;
const ADVICE =
  "stop the service, move what is left of the store, with -wal and " +
  "-shm, into a folder, run the following command as the user of the " +
  "service, and start it again: plant-store ";
const SAVED = new RegExp(
  String.raw`error: saved all plants \((\d+)\) in (\S+): ${ADVICE}(.+)\n`,
  "g",
);

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

/** Asserts that a start, and an import of another file, are refused. */
async function assertStartNames(
  path: string,
  { saved, args }: Advice,
): Promise<void> {
  const other = `${path}.other.jsonl`;
  Deno.copyFileSync(saved, other);
  const before = snapshot(dirname(path));
  for (const command of [["--port", "0"], ["import", other]]) {
    assertOneLine(
      await runProgram([...command, "--kv", path]),
      2,
      `cannot store plants in ${path}: plants that may not be in it were saved in ` +
        `${saved}: ${ADVICE}${args.join(" ")}`,
    );
  }
  assert.deepEqual(snapshot(dirname(path)), before);
}

/** Moves what is left of a store, which may be behind a link, into a folder. */
function moveAway(path: string): void {
  const folder = Deno.makeTempDirSync({ dir: dirname(path), prefix: "left-" });
  for (const { name, isFile } of Deno.readDirSync(dirname(path))) {
    const isLeft = isFile && /^(plants|real)\.db(-wal|-shm)?$/.test(name);
    if (isLeft) {
      Deno.renameSync(`${dirname(path)}/${name}`, `${folder}/${name}`);
    }
  }
}

/** Starts a service with the store, which has every acknowledged plant. */
async function assertRestored(path: string, ledger: Ledger): Promise<void> {
  await using program = await Program.start(["--kv", path]);
  await ledger.replay(program);
  await ledger.settle(program);
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(path);
}

/** Does what the log advises, and starts the service with the plants. */
async function assertImported(
  advice: Advice,
  path: string,
  ledger: Ledger,
): Promise<void> {
  moveAway(path);
  await importSaved(advice);
  await assertRestored(path, ledger);
}

/** Imports saved plants, which are all stored then. */
async function importSaved({ saved, args }: Advice): Promise<void> {
  const { status, stderr } = await runProgram(args);
  assert.equal(status, 0, stderr);
  assert.match(stderr, / 0 conflicting, 0 refused\n/);
  assert.ok(
    stderr.endsWith(`\nrenamed ${saved} to ${saved}.imported\n`),
    stderr,
  );
  assert.equal(exists(saved), false);
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

      await assertStartNames(store, advice);
      if (leaves === "the store") await ledger.assertFile(store);
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
    if (!isRunning) Deno.renameSync(away, store);
    await assertStartNames(store, advice);
    await importSaved(advice);
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
    // Without the first step of the advice.
    const before = snapshot(directory.path);
    const problem = what === "database"
      ? `plants.db is missing or empty, but its log is here: ${store}-wal: move `
      : `its log is missing: ${store}-wal: stop the service, and put `;
    const ended = await runProgram(advice.args);
    assertOneLine(ended, 2, / cannot store plants in /);
    assert.ok(ended.stderr.includes(`${store}: ${problem}`), ended.stderr);
    assert.deepEqual(snapshot(directory.path), before);
    await assertImported(advice, store, ledger);
  });
}

test("two instances whose store is deleted save a complete file each, and a start waits for both of them", async ({ store, start, ledger }) => {
  await using one = await start();
  await using two = await start();
  await create(one, ledger, 1n);
  await create(two, ledger, 1_001n);
  Deno.removeSync(store);
  const first = await savedBy(one, ledger);
  const second = await savedBy(two, ledger);
  assert.notEqual(first.saved, second.saved);
  for (const program of [one, two]) assertSucceeded(await program.stop());
  moveAway(store);
  await importSaved(second);
  await ledger.assertFile(store);
  await assertStartNames(store, first);
  await importSaved(first);
  await assertRestored(store, ledger);
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
      problem: /cannot save the plants in \S+: the disk is full/,
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

test("an error of looking at the files, which passes, is no loss", async ({ directory, store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger, 1n);
  for (const suffix of ["", "-wal", "-shm"]) {
    const [path, away] = [store + suffix, directory.file("away")];
    const { length } = program.stderr;
    Deno.renameSync(path, away);
    // As EIO, or a directory that may not be read, but for root as well.
    Deno.symlinkSync(path, path);
    await program.printed(/error: the store fails: .*symbolic links/, length);
    assert.equal(await statusOf(program.get("/readyz")), 503);
    Deno.renameSync(away, path);
    await program.printed(/info: the store has recovered\n/, length);
  }
  await create(program, ledger, 1_001n);
  assertSucceeded(await program.stop());
  assert.deepEqual(directory.names(), ["plants.db"]);
  await ledger.assertFile(store);
});

test("the plants of a lost store are saved again if their file is deleted", async ({ store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  const { saved } = await savedBy(program, ledger);
  Deno.removeSync(saved);
  const [, , again = ""] = await program.printed(
    new RegExp(SAVED.source),
    program.stderr.length,
  );
  assert.notEqual(again, saved);
  Deno.removeSync(again);
  // A stop does not leave without a file either.
  const { stderr } = await program.stop();
  const [, , last = ""] = [...stderr.matchAll(SAVED)].at(-1) ?? [];
  assert.notEqual(last, again);
  assert.ok(exists(last));
});

withStrace.test("a rescue whose directory cannot be synced saves one file, and a stop ends", async ({ directory, store, ledger }) => {
  const trace = directory.file("trace");
  const { shell = "" } = traced(trace, "inject=fsync:error=EIO");
  const real = Deno.realPathSync(directory.path);
  await using program = await Program.start(["--kv", store], {
    shell: shell.replace(' "$0"', ` -P '${real}' "$0"`),
  });
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  await program.printed(
    /error: saved all plants \(100\) in \S+, cannot sync its directory, .*: stop /,
  );
  assertSucceeded(await program.stop());
  assertInjected(trace);
  const saved = directory.names().filter((name) => name.endsWith(".jsonl"));
  assert.equal(saved.length, 1);
});

withStrace.test("a start whose directory cannot be listed fails, and creates no store", async ({ directory, store }) => {
  const before = directory.names();
  using away = new TemporaryDirectory();
  const real = Deno.realPathSync(directory.path);
  for (
    const [error, status, message] of [
      ["EIO", 1, "Input/output error"],
      ["EMFILE", 1, "Too many open files"],
      ["EACCES", 2, "permission denied: change the permissions"],
    ] as const
  ) {
    const { shell = "" } = traced(
      away.file("trace"),
      `inject=openat:error=${error}`,
    );
    const ended = await runProgram(["--port", "0", "--kv", store], {
      shell: shell.replace(' "$0"', ` -P '${real}' "$0"`),
    });
    assertInjected(away.file("trace"));
    assertOneLine(ended, status, /cannot store plants in /);
    const problem = `cannot list ${directory.path}: ${message}`;
    assert.ok(ended.stderr.includes(problem), ended.stderr);
    assert.deepEqual(directory.names(), before);
  }
});

test("a store that is lost behind a link is not replaced by its real path", async ({ directory, ledger }) => {
  Deno.mkdirSync(directory.file("data"));
  const real = directory.file("data/real.db");
  const link = directory.file("link.db");
  Deno.symlinkSync(real, link);
  await using program = await Program.start(["--kv", link]);
  await create(program, ledger, 1n);
  Deno.removeSync(real);
  const { saved } = await savedBy(program, ledger);
  assertSucceeded(await program.stop());
  moveAway(real);
  const ended = await runProgram(["--port", "0", "--kv", real]);
  assertOneLine(ended, 2, /plants that may not be in it were saved in /);
  assertSucceeded(await runProgram(["import", saved, "--kv", real]));
  await assertRestored(link, ledger);
});

test("an import of saved plants that conflict keeps their file, and says what to do", async ({ store }) => {
  await storeLines(store, [toBody(OTHER)]);
  const saved = `${store}.rescued-2026-01-01T000000.000Z.jsonl`;
  Deno.writeTextFileSync(saved, `{"id":${OTHER.id},"name":"another"}\n`);
  const { status, stderr } = await runProgram(["import", saved, "--kv", store]);
  assert.equal(status, 1);
  assert.ok(
    stderr.includes(`\n${saved} keeps its name, so that nothing `),
    stderr,
  );
  assert.ok(exists(saved));
});

test("the command in the log is quoted for a shell", async ({ directory, ledger }) => {
  const store = directory.file("a'b; false; $(c) d.db");
  await using program = await Program.start(["--kv", store]);
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  const [, command = ""] = await program.printed(/start it again: (.*)\n/);
  assertSucceeded(await program.stop());
  Deno.removeSync(`${store}-wal`);
  const words = command.replace("plant-store", "printf '%s\\n'");
  const printed = await runTool("sh", ["-c", words]);
  const [name, saved = "", ...rest] = printed.split("\n");
  assert.equal(name, "import");
  assert.ok(exists(saved), saved);
  assert.deepEqual(rest, ["--kv", store, ""]);
});
