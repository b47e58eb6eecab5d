import assert from "node:assert/strict";
import { isStored, send } from "../support/ledger.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { traced, withStrace } from "../support/strace.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  copyBegun,
  createStore,
  exportLines,
} from "../support/transfer.ts";

test("backup needs no lock that another process has", async ({ directory, store }) => {
  await createStore(store, 10);
  using _lock = new StoreLock(store);
  assertSucceeded(await backUp(store, directory.file("copy.db")));
});

withStrace.test("a backup copies the state at its start, and delays no start and no create while it is paused", async ({ store, start }) => {
  using away = new TemporaryDirectory();
  // SQLite writes to the copy when its cache is full.
  const lines = await createStore(store, 2_000, "x".repeat(2_000));
  const delay = "inject=pwrite64:delay_enter=2000";
  await using backup = Program.spawn(
    ["backup", away.file("copy.db"), "--kv", store],
    traced(away.file("trace"), "trace=pwrite64", delay),
  );
  await copyBegun(away);
  backup.process.kill("SIGSTOP");
  {
    await using program = await start();
    const newPlant = { id: -1n, plant: { name: "new" } };
    assert.ok(isStored(await send(program, newPlant)));
    assertSucceeded(await program.stop());
  }
  assert.ok(!away.names().includes("copy.db"), "the backup has ended");
  backup.process.kill("SIGCONT");
  assertSucceeded(await backup.ended());
  assertSameLines(await exportLines(away.file("copy.db")), lines);
});
