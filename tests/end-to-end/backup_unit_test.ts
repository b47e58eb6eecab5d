/** The nightly backup: the commands of its unit, in a directory of the test. */
import assert from "node:assert/strict";
import { Machine, onMachine } from "../support/machine.ts";
import { createStore, exportLines } from "../support/transfer.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** The ages of what is in the directory of the backups, in days. */
const AGES = {
  "before-the-upgrade.db": 31.1,
  "plants-2026-01-01-033000-123.db": 31.1,
  "plants-2026-01-02-033000-123.db": 30.9,
  "plants-killed.db.1234abcd.partial": 1.1,
  "plants-running.db.1234abcd.partial": 0.9,
} as const;

/** Makes files and directories of these ages; returns the directory. */
function makeBackups(machine: Machine): string {
  const directory = machine.path("var/lib/plant-store-backups");
  for (const [name, days] of Object.entries(AGES)) {
    const path = `${directory}/${name}`;
    if (name.endsWith(".partial")) Deno.mkdirSync(path);
    else Deno.writeTextFileSync(path, "");
    const date = new Date(Date.now() - days * DAY_MS);
    Deno.utimeSync(path, date, date);
  }
  return directory;
}

function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).toSorted();
}

onMachine.test("a nightly backup is named by its time, and deletes backups older than 30 days and what a killed one left", async () => {
  await using machine = new Machine();
  const lines = await createStore(machine.store, 10);
  const directory = makeBackups(machine);
  await machine.succeed("systemctl start plant-store-backup");
  const names = namesIn(directory);
  const [made = "", ...others] = names.filter((name) => !(name in AGES));
  assert.match(made, /^plants-\d{4}-\d\d-\d\d-\d{6}-\d{3}\.db$/);
  assert.deepEqual(others, []);
  assert.deepEqual(names.filter((name) => name in AGES), [
    "before-the-upgrade.db",
    "plants-2026-01-02-033000-123.db",
    "plants-running.db.1234abcd.partial",
  ]);
  assert.deepEqual(await exportLines(`${directory}/${made}`), lines);
});

onMachine.test("a nightly backup that fails deletes what a killed one left, and no backup", async () => {
  await using machine = new Machine();
  const directory = makeBackups(machine);
  const { status } = await machine.run("systemctl start plant-store-backup");
  assert.notEqual(status, 0);
  assert.match(machine.journal, /^<3>cannot read \S+plants\.db: no such file/m);
  const killed = "plants-killed.db.1234abcd.partial";
  assert.deepEqual(
    namesIn(directory),
    Object.keys(AGES).filter((name) => name !== killed),
  );
});
