import assert from "node:assert/strict";
import { inParallel, isStored, send } from "../support/load.ts";
import { assertOneLine, assertSucceeded, Program } from "../support/program.ts";
import { snapshot } from "../support/snapshot.ts";
import { traced, withStrace } from "../support/strace.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  copyBegun,
  createAndKill,
  createStore,
  exportLines,
  toLine,
} from "../support/transfer.ts";

test("backup writes every plant of a store to one file, with the permissions of the store", async ({ store }) => {
  using away = new TemporaryDirectory();
  const lines = await createStore(store, 3_000);
  Deno.chmodSync(store, 0o640);
  const copy = away.file("copy.db");
  assert.deepEqual(await backUp(store, copy), {
    status: 0,
    signal: null,
    stdout: "",
    stderr: `${copy} is a complete copy, 3000 entries\n`,
  });
  assert.deepEqual(away.names(), ["copy.db"]);
  assert.equal((Deno.statSync(copy).mode ?? 0) & 0o777, 0o640);
  assertSameLines(await exportLines(copy), lines);
});

test("backup leaves no files beside a store that no service has open", async ({ directory, store }) => {
  const lines = await createStore(store, 10);
  const [copy, second] = [directory.file("1.db"), directory.file("2.db")];
  for (const [from, to] of [[store, copy], [copy, second]] as const) {
    assertSucceeded(await backUp(from, to));
    assertSameLines(await exportLines(to), lines);
  }
  assert.deepEqual(directory.names(), ["1.db", "2.db", "plants.db"]);
});

test("backup of a killed store changes neither the store nor its log", async ({ directory, store }) => {
  await createAndKill(store, 100);
  using away = new TemporaryDirectory();
  const before = snapshot(directory.path);
  const copy = away.file("copy.db");
  assertSucceeded(await backUp(store, copy));
  assert.deepEqual(snapshot(directory.path), before);
  assert.equal((await exportLines(copy)).length, 100);
});

test("backup needs no lock that another process has", async ({ directory, store }) => {
  await createStore(store, 10);
  using _lock = new StoreLock(store, "EXCLUSIVE");
  assertSucceeded(await backUp(store, directory.file("copy.db")));
});

test("backup while a service creates contains every plant acknowledged before it", async ({ directory, store, start }) => {
  await using program = await start();
  const acknowledged: bigint[] = [];
  const enough = Promise.withResolvers<void>();
  let isRunning = true;
  function* ids() {
    for (let id = 1n; isRunning; id++) yield id;
  }
  const creating = inParallel(ids(), async (id) => {
    const plant = { name: `Plant ${id}` };
    const { status } = await send(program, { id, plant });
    // A busy machine may refuse a create.
    if (status === 503) return;
    assert.equal(status, 200);
    if (acknowledged.push(id) === 200) enough.resolve();
  }, 32);
  await enough.promise;
  for (let i = 0; i < 3; i++) {
    const before = [...acknowledged];
    const copy = directory.file(`copy${i}.db`);
    assertSucceeded(await backUp(store, copy));
    const found = new Set(await exportLines(copy));
    const lost = before.filter((id) => !found.has(toLine(id, `Plant ${id}`)));
    assert.deepEqual(lost, []);
  }
  isRunning = false;
  await creating;
});

withStrace.test("a backup of a stopped store that is paused delays no start and no create", async ({ store, start }) => {
  using away = new TemporaryDirectory();
  const lines = await createStore(store, 2_000);
  await using backup = Program.spawn(
    ["backup", away.file("copy.db"), "--kv", store],
    traced(
      away.file("trace"),
      "trace=pwrite64",
      "inject=pwrite64:delay_enter=20000",
    ),
  );
  await copyBegun(away);
  backup.process.kill("SIGSTOP");
  {
    await using program = await start();
    const newPlant = { id: -1n, plant: { name: "new" } };
    assert.ok(isStored(await send(program, newPlant)));
    assert.equal((await program.stop()).status, 0, program.stderr);
  }
  assert.ok(!away.names().includes("copy.db"), "the backup has ended");
  backup.process.kill("SIGCONT");
  assertSucceeded(await backup.ended());
  assertSameLines(await exportLines(away.file("copy.db")), lines);
});

test("backup never overwrites a file", async ({ directory, store }) => {
  await createStore(store, 10);
  const empty = directory.file("empty");
  const link = directory.file("link");
  // The advice to move the log away would destroy the data of a live store.
  Deno.writeTextFileSync(`${empty}-wal`, "mine");
  Deno.writeTextFileSync(empty, "");
  Deno.symlinkSync(directory.file("nowhere"), link);
  const before = directory.names();
  for (const target of [empty, link, store, directory.path]) {
    const ended = await backUp(store, target);
    assertOneLine(ended, 2, `${target} already exists: name a new file`);
  }
  assert.equal(Deno.statSync(empty).size, 0);
  assert.deepEqual(directory.names(), before);
});

test("backup refuses a name beside which another database left a file", async ({ directory, store }) => {
  await createStore(store, 10);
  Deno.mkdirSync(directory.file("data"));
  Deno.symlinkSync("data", directory.file("linked"));
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    const left = directory.file(`data/plants.db${suffix}`);
    Deno.writeTextFileSync(left, "stale");
    assertOneLine(
      await backUp(store, directory.file("linked/plants.db")),
      2,
      `${left} is left over from another database of that name, and SQLite would ` +
        "replay it into the copy: move it away, or name another file",
    );
    assert.equal(Deno.readTextFileSync(left), "stale");
    Deno.removeSync(left);
  }
  assert.deepEqual([...Deno.readDirSync(directory.file("data"))], []);
  assert.deepEqual(directory.names(), ["data", "linked", "plants.db"]);
});

test("only one of several backups to one name at the same time succeeds", async ({ store }) => {
  using away = new TemporaryDirectory();
  const lines = await createStore(store, 1_000);
  const copy = away.file("copy.db");
  const ended = await Promise.all(
    Array.from({ length: 4 }, () => backUp(store, copy)),
  );
  const statuses = ended.map(({ status }) => status);
  assert.deepEqual(statuses.toSorted(), [0, 2, 2, 2]);
  assert.deepEqual(away.names(), ["copy.db"]);
  assertSameLines(await exportLines(copy), lines);
});

test("backup to a path that cannot be written fails with one line", async ({ directory, store }) => {
  await createStore(store, 10);
  const missing = directory.file("no/copy.db");
  assertOneLine(
    await backUp(store, missing),
    2,
    `cannot write ${missing}: no directory ${directory.file("no")}`,
  );
  const tooLong = directory.file("x".repeat(254));
  assertOneLine(
    await backUp(store, tooLong),
    2,
    /cannot write \S+: File name too long/,
  );
  assert.deepEqual(directory.names(), ["plants.db"]);
});
