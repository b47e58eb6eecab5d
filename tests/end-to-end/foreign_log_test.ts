/**
 * A log beside a database file that is not its own: SQLite would discard it, or
 * replay it into the wrong database. A kill leaves the log of the service.
 */
import assert from "node:assert/strict";
import { inParallel, pause, PLANT, range, send } from "../support/load.ts";
import {
  assertOneLine,
  assertSucceeded,
  type Ended,
  Program,
  runProgram,
} from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { snapshot } from "../support/snapshot.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  backUp,
  createAndKill,
  createStore,
  exportLines,
  importFile,
  writeLines,
} from "../support/transfer.ts";

/** Number of times that a store is replaced while a service runs. */
const REPLACE_ROUNDS = 3;

/** Plants in a log: too few for a checkpoint. */
const PLANTS = 300;

/** A backup for all tests, and its lines. */
let backups: TemporaryDirectory;
let backup = "";
let lines: readonly string[];

Deno.test.beforeAll(async () => {
  backups = new TemporaryDirectory();
  backup = backups.file("backup.db");
  const store = backups.file("plants.db");
  lines = await createStore(store, 3_000, "Restored");
  assertSucceeded(await backUp(store, backup));
});

Deno.test.afterAll(() => backups?.[Symbol.dispose]());

for (const isRestored of [false, true]) {
  const what = isRestored
    ? "a backup was copied beside the log of another store"
    : "the database is gone and its log is not";
  test(`every command refuses a store behind a link if ${what}, and changes nothing`, async ({ directory, store }) => {
    using away = new TemporaryDirectory();
    Deno.mkdirSync(directory.file("data"));
    const real = directory.file("data/plants.db");
    Deno.symlinkSync("data/plants.db", store);
    await createAndKill(store, PLANTS);
    Deno.renameSync(real, away.file("plants.db"));
    if (isRestored) Deno.copyFileSync(backup, real);

    const file = writeLines(away.file("in"), ['{"id":9,"name":"nine"}']);
    const before = snapshot(directory.path);
    const found = isRestored
      ? `${real}-wal belongs to another database: stop the service, `
      : `plants.db is missing or empty, but its log is here: ${real}-wal: ` +
        "move the database back, restore a backup, or ";
    for (
      const ended of [
        await tryToStart(store),
        await importFile(store, file),
        await runProgram(["export", "--kv", store]),
        await backUp(store, directory.file("copy.db")),
      ]
    ) {
      assertOneLine(ended, 2, /: cannot (store plants in|read) /);
      assert.ok(ended.stderr.includes(found), ended.stderr);
      assert.deepEqual(snapshot(directory.path), before);
    }
  });
}

test("a backup that is moved over the store of a running service is opened entirely or not at all", async ({ directory }) => {
  const seed = seedOfRun();
  const random = new Random(seed);
  for (let round = 1; round <= REPLACE_ROUNDS; round++) {
    const where = `round ${round}, SEED=${seed}`;
    const path = directory.file(`${round}.db`);
    const copy = directory.file("copy.db");
    Deno.copyFileSync(backup, copy);
    {
      await using program = await Program.start(["--kv", path]);
      let isRunning = true;
      const creating = inParallel(range(1n, 2_000), async (id) => {
        if (isRunning) await send(program, { id, plant: PLANT });
      }, 8);
      await pause(random.int(0, 50));
      // The file is checked at each commit, and at an interval.
      isRunning = random.chance(0.5);
      if (!isRunning) await creating;
      Deno.renameSync(copy, path);
      await pause(random.int(0, random.pick([3, 30, 400])));
      await program.stop("SIGKILL");
      isRunning = false;
      await creating;
    }
    // The kill may come before, while or after the service saves its plants.
    for (const saved of directory.names()) {
      if (!saved.startsWith(`${round}.db.rescued-`)) continue;
      const { stderr } = await tryToStart(path);
      assert.ok(stderr.includes(saved), `${where}: ${stderr}`);
      Deno.removeSync(directory.file(saved), { recursive: true });
    }
    const { status, stderr } = await tryToStart(path);
    if (status !== 0) {
      const log = `${path}-wal`;
      assert.ok(
        stderr.includes(`${log} belongs to another database`),
        `${where}: ${stderr}`,
      );
      assert.equal(status, 2, where);
      Deno.removeSync(log);
    }
    assertSameLines(await exportLines(path), lines);
  }
});

/** Starts the service, and stops it if it listens. */
async function tryToStart(path: string): Promise<Ended> {
  await using program = Program.spawn(["--port", "0", "--kv", path]);
  const listens = program.printed(/listens on/).catch(() => {});
  await Promise.race([program.ended(), listens]);
  return await program.stop();
}
