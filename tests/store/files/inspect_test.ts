import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { inspect, lstatOrUndefined } from "../../../src/store/files/inspect.ts";
import type { StoreErrorKind } from "../../../src/store/store_error.ts";
import {
  destroyPage,
  execute,
  overwrite,
  pagesOf,
  QUEUE_INDEX,
} from "../../support/accidents.ts";
import { FIRST_TABLE, makeStore } from "../../support/plants.ts";
import { replaced } from "../../support/replaced.ts";
import { isStoreError } from "../../support/stores.ts";
import { TemporaryDirectory } from "../../support/temporary.ts";
import { runTool } from "../../support/tools.ts";

/** Makes something at a path. */
type Make = (path: string) => unknown;

/** Makes a store with one plant, and then changes it. */
function aStore(change: Make = () => {}): Make {
  return async (path) => {
    await makeStore(path);
    await change(path);
  };
}

/** Makes a database with statements, or runs them on one that exists. */
function sql(statements: string): Make {
  return (path) => execute(path, statements);
}

/** Destroys a table or an index. */
function destroy(name: string): Make {
  return (path) => {
    for (const page of pagesOf(path, name)) destroyPage(path, page);
  };
}

/** Makes something, and the log of a killed service beside it. */
function beside(make: Make): Make {
  return async (path) => {
    await make(path);
    using directory = new TemporaryDirectory();
    using kv = await Deno.openKv(directory.file("other.db"));
    await kv.set(["plants", 2n], { name: "Ficus" });
    Deno.copyFileSync(directory.file("other.db-wal"), `${path}-wal`);
  };
}

const nothing: Make = () => {};
const anEmptyFile: Make = (path) => Deno.createSync(path).close();
const withoutWal = sql("PRAGMA journal_mode = DELETE");
const aPipe: Make = (path) => runTool("mkfifo", [path]);

const NO_STORE = /^not a Deno KV store$/;
const CORRUPT = /^the database is corrupt, or its disk fails$/;
const FOREIGN = /plants\.db-wal belongs to another database, or to one that is/;

/** What is refused, by the kind of the error and its message. */
const REFUSED: readonly [
  kind: StoreErrorKind,
  message: RegExp,
  places: Readonly<Record<string, Make>>,
][] = [
  ["not a store", /^file is not a database$/, {
    "a text": (path) => Deno.writeTextFileSync(path, "Monstera\n".repeat(200)),
  }],
  ["not a store", NO_STORE, {
    "one byte": (path) => Deno.writeTextFileSync(path, "a"),
    "a pipe": aPipe,
    "a link to nothing": (path) => Deno.symlinkSync("missing.db", path),
    "another database": sql("CREATE TABLE plants (id INTEGER)"),
    "another database with a table of that name": sql(
      `${FIRST_TABLE}; CREATE TABLE plants (id)`,
    ),
  }],
  ["not a store", /^Is a directory .*: \S+plants\.db(-wal|-shm|-journal)?$/, {
    "a directory": (path) => Deno.mkdirSync(path),
    // Deno panics if it cannot write one of these. Nobody can write a directory.
    "a log that cannot be written": aStore((it) => Deno.mkdirSync(`${it}-wal`)),
    "an index of the log that cannot be written": aStore((it) =>
      Deno.mkdirSync(`${it}-shm`)
    ),
    "a journal that cannot be written": aStore((it) =>
      Deno.mkdirSync(`${it}-journal`)
    ),
  }],
  ["not a store", /^Too many levels of symbolic links .*: \S+plants\.db$/, {
    "a link to itself": (path) => Deno.symlinkSync("plants.db", path),
  }],
  ["foreign log", FOREIGN, {
    "a log without a database": beside(nothing),
    "the log of a database that is empty now": beside(anEmptyFile),
    "a log beside a store that is not in WAL mode": beside(aStore(withoutWal)),
    "a log beside a pipe": beside(aPipe),
  }],
  ["foreign log", /plants\.db-journal belongs to another database/, {
    "a journal without a database": (path) => anEmptyFile(`${path}-journal`),
  }],
  ["corrupt", CORRUPT, {
    "a damaged table of tables": aStore((it) => overwrite(it, 1_024)),
    // Deno reads these when it opens a store, and panics.
    "a damaged queue": aStore(destroy(QUEUE_INDEX)),
    "a damaged queue of running messages": aStore(
      destroy("sqlite_autoindex_queue_running_1"),
    ),
    "a damaged index of expirations": aStore(destroy("kv_expiration_ms_idx")),
    "an expiration of another type": aStore(
      sql("UPDATE kv SET expiration_ms = 'text'"),
    ),
    "a time of another type in the queue": aStore(
      sql("INSERT INTO queue VALUES (x'00', 'id', x'00', '[]', '[]')"),
    ),
    "a deadline of another type": aStore(
      sql("INSERT INTO queue_running VALUES (1, x'00', x'00', '[]', '[]')"),
    ),
  }],
];

for (const [kind, message, places] of REFUSED) {
  for (const [what, make] of Object.entries(places)) {
    Deno.test(`inspect() refuses ${what}, and changes nothing`, async () => {
      using directory = new TemporaryDirectory();
      const path = directory.file("plants.db");
      await make(path);
      const before = directory.contents();
      assert.throws(() => inspect(path), isStoreError(kind, message));
      assert.deepEqual(directory.contents(), before);
    });
  }
}

Deno.test("inspect() refuses a name that SQLite has for its own files, whatever is there", async () => {
  using directory = new TemporaryDirectory();
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    const path = directory.file(`plants.db${suffix}`);
    const message =
      `SQLite keeps its own files under names that end with ${suffix}`;
    assert.throws(() => inspect(path), isStoreError("not a store", message));
    await makeStore(path);
    assert.throws(() => inspect(path), isStoreError("not a store", message));
  }
});

/** What is accepted, and how inspect() describes it. */
const ACCEPTED: readonly [
  what: string,
  found: "nothing" | "empty" | "store",
  make: Make,
][] = [
  // A log without content has nothing to replay.
  ["an empty log alone", "nothing", (path) => anEmptyFile(`${path}-wal`)],
  ["an empty file", "empty", anEmptyFile],
  ["an empty file with an empty journal", "empty", (path) => {
    anEmptyFile(path);
    anEmptyFile(`${path}-journal`);
  }],
  ["a database without tables", "empty", sql("PRAGMA user_version = 1")],
  [
    "the start of a store",
    "empty",
    sql(`PRAGMA journal_mode = WAL; ${FIRST_TABLE}`),
  ],
  ["a store", "store", aStore()],
  ["a store that is not in WAL mode", "store", aStore(withoutWal)],
];

for (const [what, found, make] of ACCEPTED) {
  Deno.test(`inspect() finds ${what}: ${found}, and changes no file`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await make(path);
    const before = directory.contents();
    assert.equal(inspect(path), found);
    assert.deepEqual(directory.contents(), before);
    if (found === "nothing") return;
    // Deno completes the start of a store.
    {
      using _kv = await Deno.openKv(path);
    }
    assert.equal(inspect(path), "store");
  });
}

Deno.test("inspect() accepts a store whose first start was killed, and its log, which it keeps", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
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
  {
    using _kv = await Deno.openKv(killed);
  }
  assert.equal(inspect(killed), "store");
});

Deno.test("inspect() ignores a file that another process deletes meanwhile", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  const { openSync } = Deno;
  // The only moment between the look at a file and its opening.
  using _ = replaced(Deno, "openSync", (file, options) => {
    Deno.removeSync(file);
    return openSync(file, options);
  });
  assert.equal(inspect(path), "nothing");
});

Deno.test("lstatOrUndefined() finds nothing in a directory that is missing, or a file now", () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("file");
  assert.equal(lstatOrUndefined(`${file}/plants.db`), undefined);
  Deno.createSync(file).close();
  assert.equal(lstatOrUndefined(`${file}/plants.db`), undefined);
});
