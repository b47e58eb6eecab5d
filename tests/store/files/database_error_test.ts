import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { FileError } from "../../../src/files/file_error.ts";
import {
  DatabaseError,
  isLocked,
  toDatabaseError,
} from "../../../src/store/files/database_error.ts";
import { execute, makeNewer, writeText } from "../../support/damage.ts";
import { makeStore, PLANT } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { StoreLock } from "../../support/temporary.ts";
import { test } from "../../support/tests.ts";

const CORRUPT = [
  "corrupt",
  "the database is corrupt, or its disk fails",
] as const;

const NEWER = [
  "newer format",
  "a newer Deno stored plants in it, or they are damaged",
] as const;

/** Lists the plants with Deno. */
async function list(path: string): Promise<void> {
  using kv = await Deno.openKv(path);
  await Array.fromAsync(kv.list({ prefix: [] }));
}

/** Returns an operation that lists the plants after a change of the tables. */
function listAfter(sql: string): (path: string) => Promise<void> {
  return (path) => {
    execute(path, sql);
    return list(path);
  };
}

/** Operations on a store that fail, and with which problem and message. */
const FAILURES: readonly (readonly [
  what: string,
  operation: (path: string) => unknown,
  ...Parameters<typeof storeError>,
])[] = [
  [
    "a text, opened with Deno",
    (path) => {
      writeText(path);
      return Deno.openKv(path);
    },
    "not a store",
    "not a Deno KV store",
  ],
  [
    "a text, opened with SQLite",
    (path) => {
      writeText(path);
      execute(path, "SELECT * FROM kv");
    },
    "not a store",
    "not a Deno KV store",
  ],
  [
    "a database that was cut",
    (path) => {
      Deno.truncateSync(path, 4_096);
      execute(path, "SELECT * FROM kv");
    },
    ...CORRUPT,
  ],
  [
    "a store without its version",
    listAfter("DELETE FROM migration_state"),
    ...CORRUPT,
  ],
  ["a value of another type", listAfter("UPDATE kv SET v = 5"), ...CORRUPT],
  [
    "a key of an unknown kind",
    listAfter("UPDATE kv SET k = CAST(k || x'2a' AS BLOB)"),
    ...CORRUPT,
  ],
  [
    "a key that is too short",
    listAfter("UPDATE kv SET k = substr(k, 1, length(k) - 1)"),
    ...CORRUPT,
  ],
  [
    "a value of a newer Deno",
    (path) => {
      makeNewer(path);
      return list(path);
    },
    ...NEWER,
  ],
  [
    "a value in a newer encoding",
    listAfter("UPDATE kv SET v_encoding = 9"),
    ...NEWER,
  ],
  [
    "a write while another connection has the lock",
    async (path) => {
      using kv = await Deno.openKv(path);
      // Deno's first writes would wait for the lock.
      await kv.set(["other"], 1);
      using _lock = new StoreLock(path);
      const key = ["plants", 2n];
      await kv.atomic().check({ key, versionstamp: null }).set(key, PLANT)
        .commit();
    },
    "locked",
    "another process has locked it, or its file system has no locks",
  ],
  [
    "a write above a limit of the size",
    (path) =>
      execute(
        path,
        "PRAGMA max_page_count = 1; UPDATE kv SET v = zeroblob(100000)",
      ),
    "full",
    "the disk is full",
  ],
  [
    "a file that SQLite cannot open",
    (path) => new DatabaseSync(`${path}/other`),
    "other",
    /^unable to open database file/,
  ],
];

for (const [what, operation, problem, message] of FAILURES) {
  test(`toDatabaseError() finds the problem of ${what}`, async ({ store: path }) => {
    await makeStore(path);
    await assert.rejects(async () => await operation(path), (thrown) => {
      const error = toDatabaseError(thrown);
      assert.equal(isLocked(thrown), problem === "locked");
      assert.equal(isLocked(error), problem === "locked");
      const canPass = ["locked", "full", "other"].includes(problem);
      assert.equal(error.isPassing, canPass);
      return storeError(problem, message)(error);
    });
  });
}

Deno.test("toDatabaseError() does not take the path in a message for the problem, and returns known errors unchanged", () => {
  for (
    const message of [
      "Input/output error (os error 5): stat '/malformed'",
      "unable to open database file: /malformed",
    ]
  ) storeError("other")(toDatabaseError(new Error(message)));
  for (
    const error of [
      new DatabaseError("missing log"),
      new FileError("directory", "it is a directory: /malformed"),
    ]
  ) assert.equal(toDatabaseError(error), error);
});
