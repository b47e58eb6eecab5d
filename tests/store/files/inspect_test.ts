import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import {
  filesOf,
  inspect,
  isIntact,
  requireStore,
  requireUsable,
} from "../../../src/store/files/inspect.ts";
import { toStoreError } from "../../../src/store/store_error.ts";
import { execute, overwrite } from "../../support/damage.ts";
import {
  KEY,
  makeBackup,
  makeLog,
  makeStore,
  PLANT,
} from "../../support/places.ts";
import { replaced } from "../../support/replaced.ts";
import { storeError } from "../../support/stores.ts";
import { TemporaryDirectory } from "../../support/temporary.ts";
import { test } from "../../support/tests.ts";
import { runTool } from "../../support/tools.ts";

const NOT_A_STORE = storeError("path", "not a Deno KV store");

test("inspect() refuses a log beside a missing file, an empty one, or a backup", async ({ store: path }) => {
  const foreign = storeError(
    "foreign log",
    `${path}-wal belongs to another database, or to one that is gone`,
  );
  for (
    const [found, make] of [
      ["nothing", () => {}],
      ["empty", (path) => Deno.createSync(path).close()],
      ["store", makeBackup],
    ] satisfies [string, (path: string) => void | Promise<void>][]
  ) {
    await make(path);
    assert.equal(inspect(path), found);
    await makeLog(`${path}-wal`);
    assert.throws(() => inspect(path), foreign);
    assert.throws(() => requireStore(path), foreign);
    // One without content has nothing to replay.
    Deno.truncateSync(`${path}-wal`);
    assert.equal(inspect(path), found);
    Deno.removeSync(`${path}-wal`);
  }
});

test("filesOf() finds the files of a database, and no others beside it", ({ store: path }) => {
  for (const other of ["-wal2", ".wal", "wal"]) {
    Deno.createSync(path + other).close();
  }
  const files = ["", "-wal", "-shm", "-journal"].map((it) => path + it);
  for (const [i, file] of files.entries()) {
    assert.deepEqual(filesOf(path), files.slice(0, i));
    Deno.createSync(file).close();
  }
  assert.deepEqual(filesOf(path), files);
});

test("inspect() refuses what is no file, and opens no pipe, also beside a log", async ({ directory }) => {
  const pipe = directory.file("pipe.db");
  await runTool("mkfifo", [pipe]);
  Deno.symlinkSync("loop.db", directory.file("loop.db"));
  Deno.symlinkSync("log.db-wal", directory.file("log.db-wal"));
  const refuse = (name: string, expected: ReturnType<typeof storeError>) =>
    assert.throws(
      () => inspect(directory.file(name)),
      (error) => expected(toStoreError(error)),
    );
  refuse("", storeError("path", "it is a directory"));
  refuse("pipe.db", NOT_A_STORE);
  refuse("loop.db", NOT_A_STORE);
  refuse("loop.db/plants.db", storeError("path", /^Too many levels/));
  await makeLog(`${pipe}-wal`);
  refuse("pipe.db", storeError("foreign log"));
});

test("requireStore() names what is at a path without a store", async ({ store: path }) => {
  const missing = storeError("path", "no such file");
  assert.throws(() => requireStore(path), missing);
  // SQLite sees nothing in one byte either.
  for (const text of ["", "a"]) {
    Deno.writeTextFileSync(path, text);
    assert.equal(inspect(path), "empty");
    const empty = storeError("path", "it is empty");
    assert.throws(() => requireStore(path), empty);
  }
  Deno.removeSync(path);
  await makeStore(path);
  requireStore(path);
});

test("requireUsable() accepts a store, and names a file of it, or the directory, that cannot be written", async ({ directory, store: path }) => {
  await makeStore(path);
  requireUsable(path);
  assert.deepEqual(directory.names(), ["plants.db"]);
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    // Not for root either.
    Deno.mkdirSync(path + suffix);
    const message = `Is a directory (os error 21): ${path}${suffix}`;
    assert.throws(() => requireUsable(path), storeError("path", message));
    Deno.removeSync(path + suffix);
  }
});

test("requireUsable() ignores a file that another process deletes meanwhile", async ({ directory, store: path }) => {
  await makeStore(path);
  const { openSync } = Deno;
  using _ = replaced(Deno, "openSync", (path, options) => {
    Deno.removeSync(path);
    return openSync(path, options);
  });
  requireUsable(path);
  assert.deepEqual(directory.names(), []);
});

const FIRST_TABLE = `CREATE TABLE migration_state (
  k integer not null primary key,
  version integer not null
)`;

/** What statements make of a database without a store. */
const NO_STORES = [
  ["empty", "PRAGMA user_version = 1"],
  ["empty", FIRST_TABLE],
  ["refused", "CREATE TABLE plants (id INTEGER)"],
  ["refused", `${FIRST_TABLE}; CREATE TABLE plants (id)`],
] as const;

Deno.test("inspect() accepts the start of a store where one can be created, and refuses any other database unchanged", async () => {
  for (const [found, statements] of NO_STORES) {
    for (const mode of ["WAL", "DELETE"]) {
      using directory = new TemporaryDirectory();
      const path = directory.file("plants.db");
      execute(path, `PRAGMA journal_mode = ${mode}; ${statements}`);
      const content = Deno.readFileSync(path);
      if (found === "refused") assert.throws(() => inspect(path), NOT_A_STORE);
      else assert.equal(inspect(path), found);
      assert.deepEqual(Deno.readFileSync(path), content);
      assert.deepEqual(directory.names(), ["plants.db"]);
      if (found === "refused") continue;
      (await Deno.openKv(path)).close();
      assert.equal(inspect(path), "store");
    }
  }
});

test("inspect() refuses a store with a trigger or a view, which could drop what is written", async ({ store: path }) => {
  await makeStore(path);
  for (
    const [type, rest] of [
      ["TRIGGER", "AFTER INSERT ON kv BEGIN DELETE FROM kv; END"],
      ["VIEW", "AS SELECT * FROM kv"],
    ] as const
  ) {
    execute(path, `CREATE ${type} other ${rest}`);
    assert.throws(() => inspect(path), NOT_A_STORE);
    execute(path, `DROP ${type} other`);
    assert.equal(inspect(path), "store");
  }
});

test("inspect() accepts a store whose first start was killed, and its log, which it keeps", async ({ directory, store: path }) => {
  const killed = directory.file("killed.db");
  {
    using database = new DatabaseSync(path);
    database.exec(`PRAGMA journal_mode = WAL; ${FIRST_TABLE}`);
    Deno.copyFileSync(path, killed);
    Deno.copyFileSync(`${path}-wal`, `${killed}-wal`);
  }
  const log = Deno.readFileSync(`${killed}-wal`);
  assert.ok(log.length > 0);
  assert.equal(inspect(killed), "empty");
  assert.deepEqual(Deno.readFileSync(`${killed}-wal`), log);
  (await Deno.openKv(killed)).close();
  assert.equal(inspect(killed), "store");
});

test("isIntact() finds damage of a store that no plant is in, also while it is open", async ({ store: path }) => {
  const kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  assert.equal(isIntact(path), true);
  kv.close();
  // The number of free pages, in the header.
  overwrite(path, 36, 4);
  assert.equal(isIntact(path), false);
  overwrite(path, 4_096, 4_096);
  assert.equal(isIntact(path), false);
});
