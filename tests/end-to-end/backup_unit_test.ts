/** The nightly backup: the commands of its unit, in a directory of the test. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { exists } from "../../src/files/file_system.ts";
import { withPartialFile } from "../../src/files/publish.ts";
import { Machine } from "../support/machine.ts";
import { assertSucceeded } from "../support/program.ts";
import { withBash } from "../support/tools.ts";
import { createStore, exportLines } from "../support/transfer.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Sets the time of the last change of a file or directory. */
function makeOld(path: string, ageDays: number): void {
  const date = new Date(Date.now() - ageDays * DAY_MS);
  Deno.utimeSync(path, date, date);
}

/** A machine with the directory of its backups. */
class Backups extends Machine {
  /** The names of the files and directories, in order. */
  get names(): string[] {
    return Array.from(Deno.readDirSync(this.path("")), ({ name }) => name)
      .toSorted();
  }

  path(name: string): string {
    return `${dirname(dirname(this.store))}/plant-store-backups/${name}`;
  }

  /** Makes a file with the name of a backup. */
  make(name: string, ageDays: number): void {
    Deno.writeTextFileSync(this.path(name), "");
    makeOld(this.path(name), ageDays);
  }
}

withBash.test("the nightly backup deletes complete ones that are older than 30 days, and keeps the others", async () => {
  await using backups = new Backups();
  const lines = await createStore(backups.store, 10);
  backups.make("plants-2026-01-01-033000.db", 31.1);
  backups.make("plants-2026-01-02-033000.db", 30.1);
  backups.make("before-the-upgrade.db", 31.1);
  assertSucceeded(await backups.backUp());
  const [own, kept, made = "", ...others] = backups.names;
  assert.deepEqual([own, kept, others], [
    ...["before-the-upgrade.db", "plants-2026-01-02-033000.db"],
    [],
  ]);
  assert.match(made, /^plants-\d{4}-\d\d-\d\d-\d{6}\.db$/);
  assert.deepEqual(await exportLines(backups.path(made)), lines);
});

withBash.test("the nightly backup deletes what a killed one left after a day, and nothing of one that runs", async () => {
  await using backups = new Backups();
  await createStore(backups.store, 10);
  await withPartialFile(backups.path("plants-running.db"), async (running) => {
    makeOld(dirname(running), 0.9);
    await withPartialFile(backups.path("plants-killed.db"), async (killed) => {
      makeOld(dirname(killed), 1.1);
      assertSucceeded(await backups.backUp());
      assert.ok(!exists(killed));
    });
    assert.ok(exists(running));
  });
});

withBash.test("a nightly backup that fails deletes what a killed one left, and no complete one", async () => {
  await using backups = new Backups();
  backups.make("plants-2026-01-01-033000.db", 31.1);
  await withPartialFile(backups.path("plants-killed.db"), async (killed) => {
    makeOld(dirname(killed), 31.1);
    const { status, stderr } = await backups.backUp();
    assert.equal(status, 2);
    assert.match(stderr, /plants\.db: no such file/);
    assert.ok(!exists(killed));
  });
  assert.deepEqual(backups.names, ["plants-2026-01-01-033000.db"]);
});
