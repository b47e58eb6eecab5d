import assert from "node:assert/strict";
import { backUp } from "../../src/commands/backup.ts";
import { EXIT_CONFIGURATION, OperatorError } from "../../src/operator_error.ts";
import { makeStore } from "../support/places.ts";
import { snapshot } from "../support/snapshot.ts";
import { test } from "../support/tests.ts";

/** What is at the name of a backup, or beside it, and the message. */
const REFUSED: readonly [
  what: string,
  make: (path: string) => void,
  message: RegExp,
][] = [
  [
    "a file and a log",
    (path) => {
      Deno.createSync(path).close();
      Deno.createSync(`${path}-wal`).close();
    },
    /^\S+copy\.db already exists: name a new file$/,
  ],
  [
    "a link that leads nowhere",
    (path) => Deno.symlinkSync("nowhere", path),
    /^cannot write \S+copy\.db: it already exists$/,
  ],
  [
    "the log of another database",
    (path) => Deno.writeTextFileSync(`${path}-wal`, "stale"),
    /^\S+copy\.db-wal already exists: name a new file$/,
  ],
];

for (const [what, make, message] of REFUSED) {
  test(`backUp() refuses a name with ${what}, and changes nothing`, async ({ directory, store: path }) => {
    await makeStore(path);
    const copy = directory.file("copy.db");
    make(copy);
    const before = snapshot(directory.path);
    const store = { kind: "file", path, setting: "--kv" } as const;
    await assert.rejects(backUp(store, copy), (error) => {
      assert.ok(error instanceof OperatorError);
      assert.match(error.message, message);
      assert.equal(error.exitStatus, EXIT_CONFIGURATION);
      return true;
    });
    assert.deepEqual(snapshot(directory.path), before);
  });
}
