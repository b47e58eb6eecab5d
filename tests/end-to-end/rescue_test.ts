/** A store that is lost under a service, which fails creates, and saves the plants. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
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
import { exportLines } from "../support/transfer.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;
const SAVED =
  /error: saved all plants \((\d+)\) in (\S+): stop the service, run this, and start it again: (plant-store .+)\n/;

/** Creates plants and waits for them. */
function create(
  program: Program,
  ledger: Ledger,
  first = 1n,
): Promise<void> {
  return ledger.store(program, newPlants(range(first, 100)));
}

test("a service whose store is deleted fails every create, and saves the plants once, which a start refuses and no other command", async ({ directory, store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger);
  Deno.removeSync(store);
  await program.printed(/error: the store fails: /);
  await inParallel(range(1_000_001n, 20), async (id) => {
    const { error } = await ledger.send(program, { id, plant: PLANT });
    assert.equal(error, STORE_FAILED);
  });
  assert.equal(await statusOf(program.get("/readyz")), 503);
  assert.equal(await statusOf(program.get("/livez")), 200);

  const [, count, saved = "", command = ""] = await program.printed(SAVED);
  assert.equal(Number(count), ledger.acknowledged.size);
  const name = saved.replace(`${store}.rescued-`, "");
  assert.match(name, /^\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z\.jsonl$/);
  assert.equal((Deno.statSync(saved).mode ?? 0) & 0o777, 0o600);
  const lines = Deno.readTextFileSync(saved).trimEnd().split("\n");
  const imported = `${store}.imported-${name}`;
  assert.equal(
    command,
    `plant-store import ${saved} --kv ${store} && mv ${saved} ${imported}`,
  );

  const before = snapshot(directory.path);
  assertOneLine(
    await runProgram(["--port", "0", "--kv", store]),
    2,
    `cannot start with ${store}: its plants were saved in ${saved}: run this, ` +
      `and start again: ${command}`,
  );
  assert.deepEqual(snapshot(directory.path), before);
  assertSucceeded(await runProgram(["import", saved, "--kv", store]));
  assert.deepEqual(await exportLines(store), lines);
  // It is not written again.
  Deno.removeSync(saved);
  assertSucceeded(await program.stop());
  assert.equal(occurrences(program.stderr, / error: /g), 2, program.stderr);
  const left = directory.names().filter((it) => it.includes(".rescued-"));
  assert.deepEqual(left, []);
});

test("a service that is stopped right after its store was deleted saves the plants before it ends", async ({ store, start, ledger }) => {
  await using program = await start();
  await create(program, ledger);
  Deno.removeSync(store);
  assertSucceeded(await program.stop());
  const [, count, saved = ""] = SAVED.exec(program.stderr) ?? [];
  assert.equal(Number(count), ledger.acknowledged.size);
  assert.equal(Deno.readTextFileSync(saved).split("\n").length - 1, 100);
  assert.match(program.stderr, /info: stopped\n$/);
});

test("a later signal ends a service that cannot save its plants", async ({ directory }) => {
  const data = directory.file("data");
  Deno.mkdirSync(data);
  await using program = await Program.start(["--kv", `${data}/plants.db`]);
  Deno.removeSync(data, { recursive: true });
  await program.printed(
    /error: cannot save the plants: no directory \S+\/data: correct this while the service runs, which tries again every 10 s\n/,
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
  await create(program, ledger);
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

withStrace.test("a rescue whose directory cannot be synced saves one file, and a stop ends", async ({ directory, store, start, ledger }) => {
  const trace = directory.file("trace");
  await using program = await start(
    [],
    tracedOn(directory.path, trace, "inject=fsync:error=EIO"),
  );
  await create(program, ledger);
  Deno.removeSync(store);
  await program.printed(SAVED);
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
      ["EACCES", 2, "permission denied"],
    ] as const
  ) {
    const ended = await runProgram(
      ["--port", "0", "--kv", store],
      tracedOn(directory.path, trace, `inject=openat:error=${error}`),
    );
    assertInjected(trace);
    const start = `: cannot store plants in ${store}: ${message}`;
    assertOneLine(ended, status, new RegExp(RegExp.escape(start)));
    assert.deepEqual(directory.names(), before);
  }
});

test("the command in the log is quoted for a shell", async ({ directory, ledger }) => {
  const store = directory.file("a'b; false; $(c) d.db");
  await using program = await Program.start(["--kv", store]);
  await create(program, ledger);
  Deno.removeSync(store);
  const [, command = ""] = await program.printed(/start it again: (.*)\n/);
  assertSucceeded(await program.stop());
  // `import` does nothing, and `mv` renames the file.
  await runTool("sh", ["-c", command.replace("plant-store", ":")]);
  const saved = directory.names().filter((name) => name.includes(".imported-"));
  assert.equal(saved.length, 1);
});
