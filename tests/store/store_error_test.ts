import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import {
  StoreError,
  type StoreErrorKind,
  toStoreError,
} from "../../src/store/store_error.ts";
import { execute, overwrite } from "../support/accidents.ts";
import { makeStore } from "../support/plants.ts";
import { isStoreError } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const NEWER = "a newer Deno stored plants in it, or they are damaged";

/** Returns an operation that lists the plants after a change of the tables. */
function listAfter(sql: string): (path: string) => Promise<void> {
  return async (path) => {
    execute(path, sql);
    using kv = await Deno.openKv(path);
    await Array.fromAsync(kv.list({ prefix: [] }));
  };
}

/** Returns an operation that throws an error that not every machine has. */
function throwing(error: unknown): () => never {
  return () => {
    throw error;
  };
}

const { NotCapable, PermissionDenied } = Deno.errors;

/** Operations on a store with one plant that fail, by what they find. */
const FAILURES: readonly (readonly [
  kind: StoreErrorKind,
  message: string | RegExp,
  operations: Readonly<Record<string, (path: string) => unknown>>,
])[] = [
  ["no store", /^No such file or directory \(os error \d+\)$/, {
    "a missing file": (path) => Deno.statSync(`${path}-wal`),
  }],
  ["not a store", /^(Not a directory|File name).* \(os error \d+\)$/, {
    "a path below a file": (path) => Deno.statSync(`${path}/a`),
    "a long name": (path) => Deno.statSync(path + "x".repeat(256)),
  }],
  ["not a store", "unsupported file format", {
    "a damaged header"(path) {
      overwrite(path, 44, 4);
      execute(path, "SELECT * FROM kv");
    },
  }],
  ["not a store", /^Deno cannot open special files/, {
    "a special file": throwing(new NotCapable("Requires all access to x")),
  }],
  ["denied", /^(Permission denied|Read-only file system) \(os error \d+\)$/, {
    "a file of another user": throwing(
      new PermissionDenied("Permission denied (os error 13), open '/x'"),
    ),
    "a read-only file system": throwing(
      new Error("Read-only file system (os error 30), open '/x'"),
    ),
  }],
  ["denied", "it or its directory cannot be written", {
    "a database that cannot be written"(path) {
      using database = new DatabaseSync(path, { readOnly: true });
      database.exec("DELETE FROM kv");
    },
  }],
  ["corrupt", "the database is corrupt, or its disk fails", {
    "a database that was cut"(path) {
      Deno.truncateSync(path, 4_096);
      execute(path, "SELECT * FROM kv");
    },
    "a store without its version": listAfter("DELETE FROM migration_state"),
    "a store without a row": listAfter("DELETE FROM data_version"),
    "a store without a table": listAfter("DROP TABLE data_version"),
    "a store without a column": listAfter(
      "ALTER TABLE kv RENAME COLUMN version TO versiom",
    ),
    "a value of another type": listAfter("UPDATE kv SET v = 5"),
    "a key of an unknown kind": listAfter(
      "UPDATE kv SET k = CAST(k || x'2a' AS BLOB)",
    ),
    "a short key": listAfter("UPDATE kv SET k = substr(k, 1, length(k) - 1)"),
  }],
  ["newer format", NEWER, {
    // V8 refuses a value with a version above its own.
    "a value of a newer Deno": listAfter(
      "UPDATE kv SET v = CAST(x'FF7F' || substr(v, 3) AS BLOB)",
    ),
    "a newer encoding": listAfter("UPDATE kv SET v_encoding = 9"),
  }],
  ["disk", "the disk is full or fails", {
    "a disk that fails": throwing(new Error("disk I/O error")),
  }],
  ["disk", "database or disk is full", {
    "a full disk": throwing(new TypeError("database or disk is full")),
  }],
  ["disk", "No space left on device (os error 28)", {
    "no room for a new file": throwing(
      new Error("No space left on device (os error 28): open '/malformed'"),
    ),
  }],
  // A path is no problem.
  ["disk", /^no file can be opened beside it: the disk has no free inode, or/, {
    "a path of SQLite": (path) => new DatabaseSync(`${path}/malformed`),
  }],
  ["disk", "Input/output error (os error 5)", {
    "a path of Deno": throwing(
      new Error("Input/output error (os error 5): stat '/malformed'"),
    ),
  }],
  ["unknown", "Requires read access, run again with the --allow-read flag", {
    "a permission of Deno": throwing(
      new NotCapable(
        'Requires read access to "/malformed", run again with the --allow-read flag',
      ),
    ),
  }],
];

for (const [kind, message, operations] of FAILURES) {
  for (const [what, operation] of Object.entries(operations)) {
    Deno.test(`toStoreError() recognizes ${what} as "${kind}"`, async () => {
      using directory = new TemporaryDirectory();
      const path = directory.file("plants.db");
      await makeStore(path);
      await assert.rejects(
        async () => await operation(path),
        (thrown) => isStoreError(kind, message)(toStoreError(thrown)),
      );
    });
  }
}

Deno.test("a StoreError has the properties of its kind", () => {
  const expected: Readonly<Record<StoreErrorKind, readonly string[]>> = {
    "no store": [],
    "not a store": [],
    "denied": [],
    "foreign log": [],
    "wrong store": [],
    "corrupt": ["endsStore", "isDamage"],
    "newer format": ["isDamage"],
    "lost": ["endsStore", "isTransient", "isOutcomeUnknown"],
    "locked": ["isTransient"],
    "changed": ["isTransient", "isOutcomeUnknown"],
    "no answer": ["isTransient", "isOutcomeUnknown"],
    "disk": ["isTransient", "isOutcomeUnknown"],
    "server": ["isTransient", "isOutcomeUnknown"],
    "unknown": ["isTransient", "isOutcomeUnknown"],
  };
  const names = [
    "endsStore",
    "isDamage",
    "isTransient",
    "isOutcomeUnknown",
  ] as const;
  // Every kind: the type of the expected ones lets none out.
  for (const kind of Object.keys(expected) as StoreErrorKind[]) {
    const error = new StoreError(kind, "");
    const found = names.filter((property) => error[property]);
    assert.deepEqual(found, expected[kind], kind);
  }
});
