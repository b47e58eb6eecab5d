import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { inspect } from "../../../src/store/files/inspect.ts";
import { storeError } from "../../support/stores.ts";
import { TemporaryDirectory } from "../../support/temporary.ts";
import { test } from "../../support/tests.ts";

/** Statements that make a database as the first start leaves it when cut. */
const CUT_STARTS: Readonly<Record<string, string>> = {
  "without tables": "PRAGMA user_version = 1",
  "with only migration_state": `
    CREATE TABLE migration_state (
      k integer not null primary key,
      version integer not null
    )`,
};

/** Makes a database, in the journal mode of an open store or of a backup. */
function makeDatabase(path: string, statements: string, mode: string): void {
  using database = new DatabaseSync(path);
  database.exec(`PRAGMA journal_mode = ${mode}; ${statements}`);
}

for (const [what, statements] of Object.entries(CUT_STARTS)) {
  for (const mode of ["WAL", "DELETE"]) {
    test(`a database ${what} in ${mode} mode is where a store can be created`, async ({ directory, store: path }) => {
      makeDatabase(path, statements, mode);
      assert.equal(inspect(path), "empty");
      assert.deepEqual(directory.names(), ["plants.db"]);
      (await Deno.openKv(path)).close();
      assert.equal(inspect(path), "store");
    });
  }
}

test("inspect() accepts a store whose first start was killed, and its log", async ({ directory }) => {
  const [path, killed] = [directory.file("a.db"), directory.file("b.db")];
  {
    using database = new DatabaseSync(path);
    database.exec("PRAGMA journal_mode = WAL");
    database.exec(CUT_STARTS["with only migration_state"] ?? "");
    Deno.copyFileSync(path, killed);
    Deno.copyFileSync(`${path}-wal`, `${killed}-wal`);
  }
  assert.ok(Deno.statSync(`${killed}-wal`).size > 0);
  assert.equal(inspect(killed), "empty");
  (await Deno.openKv(killed)).close();
  assert.equal(inspect(killed), "store");
});

for (
  const [what, statements] of [
    ["a foreign table", "CREATE TABLE plants (id INTEGER)"],
    [
      "migration_state and a foreign table",
      `${CUT_STARTS["with only migration_state"]}; CREATE TABLE plants (id)`,
    ],
    ["a foreign view", "CREATE VIEW plants AS SELECT 1 AS id"],
  ] as const
) {
  Deno.test(`inspect() refuses a database with ${what}, and leaves it unchanged`, () => {
    for (const mode of ["WAL", "DELETE"]) {
      using directory = new TemporaryDirectory();
      const path = directory.file("other.db");
      makeDatabase(path, statements, mode);
      const content = Deno.readFileSync(path);
      storeError("not a store")(inspect(path));
      assert.deepEqual(Deno.readFileSync(path), content);
      assert.deepEqual(directory.names(), ["other.db"]);
    }
  });
}
