import assert from "node:assert/strict";
import {
  checkStoreExists,
  checkStoreUsable,
  enterWalMode,
  leaveWalMode,
  sidecarsOf,
} from "../../src/store/database_file.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { entriesOf } from "../support/entries.ts";
import {
  KEY,
  makeBackup,
  makeLog,
  makeStore,
  PLANT,
  testPlaces,
} from "../support/places.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const IS_WINDOWS = Deno.build.os === "windows";

function assertForeign(check: () => void, log: string): void {
  assert.throws(check, (error) => {
    assert.ok(error instanceof StoreError);
    assert.equal(error.problem, "foreign log");
    assert.ok(error.message.startsWith(`${log} belongs to another`));
    return true;
  });
}

testPlaces(
  (place) =>
    `checkStoreUsable() refuses ${place} to a missing or an empty file beside a log`,
  async (path, real) => {
    for (const exists of [false, true]) {
      if (exists) Deno.createSync(real).close();
      assert.equal(checkStoreUsable(path), exists);
      await makeLog(`${real}-wal`);
      assertForeign(() => checkStoreUsable(path), `${real}-wal`);
      Deno.removeSync(`${real}-wal`);
      assert.equal(checkStoreUsable(path), exists);
      assert.deepEqual(sidecarsOf(path), []);
    }
  },
);

testPlaces(
  (place) =>
    `checkStoreUsable() and checkStoreExists() refuse ${place} to a backup beside a log`,
  async (path, real) => {
    await makeBackup(real);
    checkStoreUsable(path);
    checkStoreExists(path);
    await makeLog(`${real}-wal`);
    const content = Deno.readFileSync(real);
    assertForeign(() => checkStoreUsable(path), `${real}-wal`);
    assertForeign(() => checkStoreExists(path), `${real}-wal`);
    assert.deepEqual(Deno.readFileSync(real), content);
  },
);

testPlaces(
  (place) =>
    `checkStoreUsable() and checkStoreExists() refuse ${place} to a store beside a journal`,
  async (path, real) => {
    for (const make of [makeBackup, makeStore]) {
      await make(real);
      Deno.createSync(`${real}-journal`).close();
      checkStoreUsable(path);
      Deno.writeTextFileSync(`${real}-journal`, "a");
      assertForeign(() => checkStoreUsable(path), `${real}-journal`);
      assertForeign(() => checkStoreExists(path), `${real}-journal`);
      Deno.removeSync(`${real}-journal`);
      Deno.removeSync(real);
    }
  },
);

testPlaces(
  (place) => `checkStoreUsable() accepts ${place} to a store and its own log`,
  async (path, real) => {
    using kv = await Deno.openKv(path);
    await kv.set(KEY, PLANT);
    assert.ok(Deno.statSync(`${real}-wal`).size > 0);
    checkStoreUsable(path);
    checkStoreExists(path);
  },
);

testPlaces(
  (place) => `sidecarsOf() finds the files beside the file behind ${place}`,
  (path, real) => {
    for (const exists of [false, true]) {
      if (exists) Deno.createSync(real).close();
      assert.deepEqual(sidecarsOf(path), []);
      for (const sidecar of ["-wal", "-shm", "-journal"]) {
        Deno.createSync(real + sidecar).close();
        assert.deepEqual(sidecarsOf(path), [real + sidecar]);
        Deno.removeSync(real + sidecar);
      }
      for (const other of ["-wal2", ".wal", "wal"]) {
        Deno.createSync(real + other).close();
      }
      assert.deepEqual(sidecarsOf(path), []);
    }
  },
);

Deno.test("an empty log beside a missing file or a backup is not foreign", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  Deno.createSync(`${path}-wal`).close();
  checkStoreUsable(path);
  Deno.removeSync(`${path}-wal`);
  await makeBackup(path);
  Deno.createSync(`${path}-wal`).close();
  checkStoreUsable(path);
});

Deno.test("checkStoreUsable() leaves no files beside a closed store, and keeps those beside an open one", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  checkStoreUsable(path);
  assert.deepEqual(directory.names(), ["plants.db"]);
  using kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  const names = directory.names();
  checkStoreUsable(path);
  assert.deepEqual(directory.names(), names);
  assert.equal(names.length, 3);
});

Deno.test("enterWalMode() and leaveWalMode() change the mode of a closed store, and leave no files beside it", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  for (const _ of [1, 2]) {
    leaveWalMode(path);
    await makeLog(`${path}-wal`);
    assertForeign(() => checkStoreUsable(path), `${path}-wal`);
    Deno.removeSync(`${path}-wal`);
    enterWalMode(path);
    assert.deepEqual(directory.names(), ["plants.db"]);
  }
  using kv = await Deno.openKv(path);
  assert.throws(() => leaveWalMode(path), /database is locked/);
  assert.deepEqual(await entriesOf(kv), [[KEY, PLANT]]);
});

Deno.test({
  name: "checkStoreUsable() reports what it cannot examine",
  ignore: IS_WINDOWS,
  fn: () => {
    using directory = new TemporaryDirectory();
    const link = (target: string, name: string) =>
      Deno.symlinkSync(target, directory.file(name));
    link("loop.db", "loop.db");
    link("log.db-wal", "log.db-wal");
    link("missing/plants.db", "nowhere.db");
    // The header of a directory cannot be read.
    Deno.mkdirSync(directory.file("directory.db"));
    Deno.writeTextFileSync(directory.file("directory.db-wal"), "a");
    Deno.createSync(directory.file("file")).close();
    for (
      const [name, problem, message] of [
        ["loop.db", "denied", /^Too many levels of symbolic links/],
        ["log.db", "denied", /^Too many levels of symbolic links/],
        ["nowhere.db", "no directory", /^no directory .*\/missing$/],
        ["file/plants.db", "no directory", /^no directory .*\/file$/],
        ["directory.db", "denied", /^it is a directory$/],
      ] as const
    ) {
      assert.throws(() => checkStoreUsable(directory.file(name)), (error) => {
        assert.ok(error instanceof StoreError);
        assert.equal(error.problem, problem, name);
        assert.match(error.message, message);
        return true;
      });
    }
  },
});

Deno.test("a file of no or one byte is an empty database, as SQLite sees it", () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  for (const text of ["", "a"]) {
    Deno.writeTextFileSync(path, text);
    assert.equal(checkStoreUsable(path), true);
    assert.throws(
      () => checkStoreExists(path),
      /^StoreError: not a Deno KV store$/,
    );
  }
  Deno.removeSync(path);
  assert.throws(() => checkStoreExists(path), /^StoreError: no such file$/);
});
