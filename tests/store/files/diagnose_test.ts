import assert from "node:assert/strict";
import { diagnose, requireUsable } from "../../../src/store/files/diagnose.ts";
import { noAnswer } from "../../../src/store/retry.ts";
import { eachPlace, makeStore } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { StoreLock } from "../../support/temporary.ts";
import { test, testsIf } from "../../support/tests.ts";

/** Root may write every file. */
const byUser = testsIf(Deno.uid() !== 0);

eachPlace.test("requireUsable() accepts a store, and names a file of it that cannot be written", async ({ path, real }) => {
  requireUsable(path);
  await makeStore(path);
  requireUsable(path);
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    // Not for root either.
    Deno.mkdirSync(real + suffix);
    const message = `it is a directory: ${real}${suffix}`;
    assert.throws(() => requireUsable(path), storeError("directory", message));
    Deno.removeSync(real + suffix);
  }
});

byUser.test("requireUsable() names a file that may not be read, or not be written", async ({ store: path }) => {
  await makeStore(path);
  for (const mode of [0o200, 0o400]) {
    Deno.chmodSync(path, mode);
    const denied = new RegExp(`^permission denied.*: .*/plants\\.db$`);
    assert.throws(() => requireUsable(path), storeError("denied", denied));
  }
});

test("requireUsable() ignores a file that another process deletes meanwhile", async ({ directory, store: path }) => {
  await makeStore(path);
  const { openSync } = Deno;
  Deno.openSync = (path, options) => {
    Deno.removeSync(path);
    return openSync(path, options);
  };
  try {
    requireUsable(path);
  } finally {
    Deno.openSync = openSync;
  }
  assert.deepEqual(directory.names(), []);
});

test("diagnose() finds the lock of another process behind a time-out, and no other cause", async ({ store: path }) => {
  await makeStore(path);
  const error = noAnswer(9_000);
  storeError("no answer", "no answer within 9 s")(diagnose(error, path));
  using _lock = new StoreLock(path);
  storeError("locked")(diagnose(error, path));
});

test("diagnose() finds the file that SQLite cannot open or write, and keeps the message if there is none", async ({ directory, store: path }) => {
  await makeStore(path);
  const unable = new Error("unable to open database file");
  const readOnly = new Error("attempt to write a readonly database");
  for (const error of [unable, readOnly]) {
    storeError("other", error.message)(diagnose(error, path));
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
  Deno.mkdirSync(`${path}-wal`);
  for (const error of [unable, readOnly]) {
    storeError("directory", /plants\.db-wal$/)(diagnose(error, path));
  }
  // Any other error says enough.
  const full = new Error("database or disk is full");
  storeError("full")(diagnose(full, path));
  assert.deepEqual(directory.names(), ["plants.db", "plants.db-wal"]);
});
