/** The nightly backup: the commands of its unit, in a directory of the test. */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { exists } from "../../src/files/file_system.ts";
import { withPartialFile } from "../../src/files/publish.ts";
import { BackgroundProcess } from "../support/background.ts";
import { writeScript } from "../support/program.ts";
import { test, type TestPlace } from "../support/tests.ts";
import { createStore, exportLines } from "../support/transfer.ts";

const UNIT = Deno.readTextFileSync(
  new URL("../../src/deploy/plant-store-backup.service", import.meta.url),
);

const DAY_MS = 24 * 60 * 60 * 1000;

/** Sets the time of the last change of a file or directory. */
function makeOld(path: string, ageDays: number): void {
  const date = new Date(Date.now() - ageDays * DAY_MS);
  Deno.utimeSync(path, date, date);
}

/** The place of a test with a directory of backups. */
class Backups {
  readonly #place: TestPlace;
  readonly #program: string;

  constructor(place: TestPlace) {
    this.#place = place;
    this.#program = place.directory.file("plant-store");
    writeScript(this.#program);
    Deno.mkdirSync(place.directory.file("backups"));
  }

  /** The names of the files and directories, in order. */
  get names(): string[] {
    return this.#place.directory.names("backups");
  }

  path(name: string): string {
    return this.#place.directory.file(`backups/${name}`);
  }

  /** Makes a file with the name of a backup. */
  make(name: string, ageDays: number): void {
    Deno.writeTextFileSync(this.path(name), "");
    makeOld(this.path(name), ageDays);
  }

  /** Runs the commands of the unit until one fails, as systemd does. */
  async run(): Promise<void> {
    for (
      const [, prefix, line = ""] of UNIT.matchAll(/^ExecStart=(-?)(.*)$/gm)
    ) {
      const command = line
        .replaceAll("/var/lib/plant-store-backups", this.path(""))
        .replaceAll("/usr/local/bin/plant-store", this.#program)
        .replaceAll("%%", "%");
      const env = { KV_PATH: this.#place.store };
      const shell = new BackgroundProcess("sh", { args: ["-c", command], env });
      const { status, stderr } = await shell.ended();
      if (status !== 0 && prefix === "") throw new Error(stderr);
    }
  }
}

test("the nightly backup deletes complete ones that are older than 30 days, and keeps the others", async (place) => {
  const lines = await createStore(place.store, 10);
  const backups = new Backups(place);
  backups.make("plants-2026-01-01-033000.db", 31.1);
  backups.make("plants-2026-01-02-033000.db", 30.1);
  backups.make("before-the-upgrade.db", 31.1);
  await backups.run();
  const [own, kept, made = "", ...others] = backups.names;
  assert.deepEqual([own, kept, others], [
    ...["before-the-upgrade.db", "plants-2026-01-02-033000.db"],
    [],
  ]);
  assert.match(made, /^plants-\d{4}-\d\d-\d\d-\d{6}\.db$/);
  assert.deepEqual(await exportLines(backups.path(made)), lines);
});

test("the nightly backup deletes what a killed one left after a day, and nothing of one that runs", async (place) => {
  await createStore(place.store, 10);
  const backups = new Backups(place);
  await withPartialFile(backups.path("plants-running.db"), async (running) => {
    makeOld(dirname(running), 0.9);
    await withPartialFile(backups.path("plants-killed.db"), async (killed) => {
      makeOld(dirname(killed), 1.1);
      await backups.run();
      assert.ok(!exists(killed));
    });
    assert.ok(exists(running));
  });
});

test("a nightly backup that fails deletes what a killed one left, and no complete one", async (place) => {
  const backups = new Backups(place);
  backups.make("plants-2026-01-01-033000.db", 31.1);
  await withPartialFile(backups.path("plants-killed.db"), async (killed) => {
    makeOld(dirname(killed), 31.1);
    await assert.rejects(backups.run(), /plants\.db: no such file/);
    assert.ok(!exists(killed));
  });
  assert.deepEqual(backups.names, ["plants-2026-01-01-033000.db"]);
});
