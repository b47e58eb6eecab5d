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
} from "../support/load.ts";
import {
  assertOneLine,
  assertSucceeded,
  Program,
  runProgram,
  statusOf,
} from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";
import { createStore } from "../support/transfer.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;
const FAILING = /error: the store fails: /g;
const ADVICE = "stop the service, run the following command as its user, and " +
  "start it again: plant-store ";
const SAVED = new RegExp(
  String.raw`error: saved all plants \((\d+)\) in (\S+): ${ADVICE}(.+)\n`,
  "g",
);

/** What a service that has lost its store tells the operator. */
interface Saved {
  /** The file with the plants. */
  readonly saved: string;
  /** The arguments of the command that imports it. */
  readonly command: string;
}

/** Waits until a service has saved its plants; it logs that once. */
async function savedBy(program: Program, plants: Ledger): Promise<Saved> {
  await program.printed(new RegExp(SAVED.source));
  const [[, count, saved = "", command = ""] = [], ...others] = [
    ...program.stderr.matchAll(SAVED),
  ];
  assert.deepEqual(others, []);
  assert.equal(occurrences(program.stderr, FAILING), 1, program.stderr);
  const { mode } = Deno.statSync(saved);
  assert.equal((mode ?? 0) & 0o777, 0o600);

  const lines = Deno.readTextFileSync(saved).trimEnd().split("\n");
  assert.equal(lines.length, Number(count));
  assert.equal(lines.length, plants.acknowledged.size);
  return { saved, command };
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
  { saved, command }: Saved,
): Promise<void> {
  const other = `${path}.other.jsonl`;
  Deno.copyFileSync(saved, other);
  const before = snapshot(dirname(path));
  for (const args of [["--port", "0"], ["import", other]]) {
    assertOneLine(
      await runProgram([...args, "--kv", path]),
      2,
      `cannot store plants in ${path}: plants that may not be in it were saved in ` +
        `${saved}: ${ADVICE}${command}`,
    );
  }
  assert.deepEqual(snapshot(dirname(path)), before);
}

/** Creates plants and waits for them. */
function create(
  program: Program,
  ledger: Ledger,
  first: bigint,
): Promise<void> {
  return ledger.store(program, newPlants(range(first, 100)));
}

test("a service whose store is deleted fails every create, and saves the plants once", async ({ store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  await program.printed(new RegExp(FAILING.source));
  await assertFails(program, ledger);
  const saved = await savedBy(program, ledger);
  assertSucceeded(await program.stop());
  assert.equal(occurrences(program.stderr, SAVED), 1, program.stderr);
  await assertStartNames(store, saved);
});

test("a service that is stopped right after its store was deleted saves the plants before it ends", async ({ store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger, 1n);
  Deno.removeSync(store);
  assertSucceeded(await program.stop());
  assert.match(program.stderr, /info: stopped\n$/);
  await savedBy(program, ledger);
});

test("a later signal ends a service that cannot save its plants", async ({ directory }) => {
  const data = directory.file("data");
  Deno.mkdirSync(data);
  await using program = await Program.start(["--kv", `${data}/plants.db`]);
  Deno.removeSync(data, { recursive: true });
  await program.printed(
    /error: cannot save the plants in \S+: no directory \S+\/data: correct this while the service runs: it tries again every 10 s, and stops only when they are saved\n/,
  );
  program.process.kill("SIGTERM");
  await program.printed(/SIGTERM: draining\n/);
  // The first of these count as the signal above.
  const again = setInterval(() => void program.stop(), 100);
  const { status, stderr } = await program.ended()
    .finally(() => clearInterval(again));
  assert.equal(status, 1, stderr);
});

test("a temporary error when examining the files is not a loss", async ({ directory, ledger }) => {
  const [data, link] = [directory.file("data"), directory.file("link")];
  Deno.mkdirSync(data);
  /** Makes the link lead to another path, at one moment. */
  function turnLink(path: string): void {
    const next = directory.file("next");
    Deno.symlinkSync(path, next);
    Deno.renameSync(next, link);
  }
  turnLink(data);
  await using program = await Program.start(["--kv", `${link}/plants.db`]);
  await create(program, ledger, 1n);
  // As EIO, or a directory that may not be read, but for root as well.
  turnLink(link);
  await program.printed(/error: the store fails: .*symbolic links/);
  assert.equal(await statusOf(program.get("/readyz")), 503);
  turnLink(data);
  await program.printed(/info: the store has recovered\n/);
  await create(program, ledger, 1_001n);
  assertSucceeded(await program.stop());
  assert.deepEqual(directory.names("data"), ["plants.db"]);
  await ledger.assertFile(`${data}/plants.db`);
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

withStrace.test("a rescue whose directory cannot be synced saves one file, and a stop ends", async ({ directory, store, start, ledger }) => {
  const trace = directory.file("trace");
  await using program = await start(
    [],
    tracedOn(directory.path, trace, "inject=fsync:error=EIO"),
  );
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
  const trace = away.file("trace");
  for (
    const [error, status, message] of [
      ["EIO", 1, "Input/output error"],
      ["EMFILE", 1, "Too many open files"],
      ["EACCES", 2, "permission denied: change the permissions"],
    ] as const
  ) {
    const ended = await runProgram(
      ["--port", "0", "--kv", store],
      tracedOn(directory.path, trace, `inject=openat:error=${error}`),
    );
    assertInjected(trace);
    assertOneLine(ended, status, /cannot store plants in /);
    const problem = `cannot list ${directory.path}: ${message}`;
    assert.ok(ended.stderr.includes(problem), ended.stderr);
    assert.deepEqual(directory.names(), before);
  }
});

test("an import of saved plants that conflict keeps their file, and says what to do", async ({ store }) => {
  await createStore(store, 1);
  const saved = `${store}.rescued-2026-01-01T000000.000Z.jsonl`;
  Deno.writeTextFileSync(saved, '{"id":1,"name":"another"}\n');
  const { status, stderr } = await runProgram(["import", saved, "--kv", store]);
  assert.equal(status, 1);
  assert.ok(
    stderr.includes(
      `\n${saved} keeps its name, so the service does not start: `,
    ),
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
  const words = command.replace("plant-store", "printf '%s\\n'");
  const printed = await runTool("sh", ["-c", words]);
  const [name, saved = "", ...rest] = printed.split("\n");
  assert.equal(name, "import");
  assert.ok(exists(saved), saved);
  assert.deepEqual(rest, ["--kv", store, ""]);
});
