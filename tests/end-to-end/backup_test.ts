import assert from "node:assert/strict";
import { isStored, send } from "../support/ledger.ts";
import { newPlants, range } from "../support/plants.ts";
import { eventually, inParallel } from "../support/waiting.ts";
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

test("backup while a service creates contains every plant acknowledged before it", async ({ directory, store, start, ledger }) => {
  await using program = await start();
  let isOver = false;
  const load = inParallel(newPlants(range(1n, 100_000)), async (newPlant) => {
    if (!isOver) await ledger.send(program, newPlant);
  }, 32);
  await eventually((count) => count > 200, () => ledger.acknowledged.size);
  const { events } = ledger;
  const copy = directory.file("copy.db");
  assertSucceeded(await backUp(store, copy));
  isOver = true;
  await load;
  assert.ok(ledger.events > events, "nothing was created meanwhile");
  ledger.forgetSince(events);
  await ledger.assertFile(copy);
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
    assertSucceeded(await program.stop());
  }
  assert.ok(!away.names().includes("copy.db"), "the backup has ended");
  backup.process.kill("SIGCONT");
  assertSucceeded(await backup.ended());
  assertSameLines(await exportLines(away.file("copy.db")), lines);
});
