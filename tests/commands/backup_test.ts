import assert from "node:assert/strict";
import { backUp } from "../../src/commands/backup.ts";
import { restore } from "../../src/commands/restore.ts";
import { capture } from "../support/console.ts";
import { makeStore } from "../support/places.ts";
import { snapshot } from "../support/snapshot.ts";
import { configError } from "../support/settings.ts";
import { fileAt, serverAt } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";

/** Names of backups, what is there or beside it, and the message. */
const REFUSED: readonly [
  name: string,
  make: (path: string) => void,
  message: RegExp,
][] = [
  [
    "copy.db",
    (path) => {
      Deno.createSync(path).close();
      Deno.createSync(`${path}-wal`).close();
    },
    /^\S+copy\.db already exists: name a new file$/,
  ],
  [
    "copy.db",
    (path) => Deno.writeTextFileSync(`${path}-wal`, "stale"),
    /^\S+copy\.db-wal already exists: name a new file$/,
  ],
  ...["-wal", "-shm", "-journal"].map((suffix): typeof REFUSED[number] => [
    `copy.db${suffix}`,
    () => {},
    /^cannot write \S+: SQLite deletes files of such names: name another file$/,
  ]),
];

test("backUp() writes the file that a link leads to, and restore() reads it", async ({ directory, store }) => {
  await makeStore(store);
  const file = directory.file("new.db");
  const link = directory.file("link.db");
  Deno.symlinkSync("new.db", link);
  const backedUp = await capture(() => backUp(fileAt(store), link));
  assert.equal(backedUp.stderr, `${file} is a complete copy, 1 entry`);
  const to = directory.file("restored.db");
  const restored = await capture(() => restore(fileAt(to), link));
  assert.equal(restored.stderr, `restored 1 entry from ${file} to ${to}`);
});

Deno.test("backUp() refuses names that SQLite would use, or where a file is, and changes nothing", async () => {
  for (const [name, make, message] of REFUSED) {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await makeStore(path);
    const copy = directory.file(name);
    make(copy);
    const before = snapshot(directory.path);
    const backup = backUp(fileAt(path), copy);
    await assert.rejects(backup, configError(message));
    assert.deepEqual(snapshot(directory.path), before);
  }
});

Deno.test("backUp() and restore() refuse a KV Connect server, and write nothing", async () => {
  using directory = new TemporaryDirectory();
  const refused = configError(/^http:\/\/kv\.test is a KV Connect server/);
  for (const command of [backUp, restore]) {
    const file = directory.file("copy.db");
    await assert.rejects(command(serverAt("http://kv.test"), file), refused);
  }
  assert.deepEqual(directory.names(), []);
});
