/**
 * A log beside a database file that is not its own: SQLite would discard it, or
 * replay it into the wrong database. A kill leaves the log of the service.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { resolve } from "node:path";
import { inParallel, pause, PLANT, send } from "../support/load.ts";
import {
  assertOneLine,
  type Ended,
  Program,
  runProgram,
} from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
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

/** Returns a link in one directory to a database file in another one. */
function makeLink(directory: TemporaryDirectory): [link: string, real: string] {
  Deno.mkdirSync(directory.file("data"));
  const path = directory.file("plants.db");
  Deno.symlinkSync("data/plants.db", path);
  return [path, directory.file("data/plants.db")];
}

/** A backup for all tests, and its lines. */
let backups: TemporaryDirectory;
let backup = "";
let lines: readonly string[];

Deno.test.beforeAll(async () => {
  backups = new TemporaryDirectory();
  backup = backups.file("backup.db");
  const store = backups.file("plants.db");
  lines = await createStore(store, 3_000, "Restored");
  const { status, stderr } = await backUp(store, backup);
  assert.equal(status, 0, stderr);
});

Deno.test.afterAll(() => backups?.[Symbol.dispose]());

for (const isRestored of [false, true]) {
  const what = isRestored
    ? "a backup was copied beside the log of another store"
    : "the database is gone and its log is not";
  Deno.test(`every command refuses a store behind a link if ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const [path, real] = makeLink(directory);
    const away = directory.file("away.db");
    const ledger = await createAndKill(path, PLANTS);
    const log = Deno.readFileSync(`${real}-wal`);
    Deno.renameSync(real, away);
    if (isRestored) Deno.copyFileSync(backup, real);

    const file = writeLines(directory.file("in"), ['{"id":9,"name":"nine"}']);
    const copy = directory.file("copy.db");
    const found = isRestored
      ? `${resolve(real)}-wal belongs to another database: stop the service, `
      : `plants.db is missing or empty, but its log is here: ${
        resolve(real)
      }-wal: ` +
        "move the database back, put a backup there with plant-store " +
        "restore, or move that log away and import the plants\n";
    for (
      const ended of [
        await tryToStart(path),
        await importFile(path, file),
        await runProgram(["export", "--kv", path]),
        await backUp(path, copy),
      ]
    ) {
      assertOneLine(ended, 2, /: cannot (store plants in|read) /);
      assert.ok(ended.stderr.includes(found), ended.stderr);
    }
    assert.throws(() => Deno.statSync(copy), Deno.errors.NotFound);
    assert.ok(Buffer.from(Deno.readFileSync(`${real}-wal`)).equals(log));

    if (isRestored) {
      Deno.renameSync(`${real}-wal`, `${real}-wal.old`);
      assertSameLines(await exportLines(path), lines);
    } else {
      assert.throws(() => Deno.statSync(real), Deno.errors.NotFound);
      Deno.renameSync(away, real);
      assert.equal(await ledger.assertFile(path), ledger.acknowledged.size);
    }
  });
}

Deno.test("a backup that is moved over the store of a running service is opened entirely or not at all", async () => {
  using directory = new TemporaryDirectory();
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
      const creating = inParallel(ids(2_000), async (id) => {
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
    const { status, stderr } = await tryToStart(path);
    if (status !== 0) {
      assert.match(stderr, logOf(path), where);
      assert.equal(status, 2, where);
      Deno.renameSync(`${path}-wal`, `${path}-wal.old`);
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

function ids(count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => BigInt(i + 1));
}

/** The message that names the log of a database. */
function logOf(path: string): RegExp {
  const name = resolve(path).replaceAll(/[.+]/g, "\\$&");
  return new RegExp(`${name}-wal belongs to another database`);
}
