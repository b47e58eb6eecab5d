import assert from "node:assert/strict";
import { resolveLinks } from "../../../src/files/file_system.ts";
import { basename, dirname } from "node:path";
import { DatabaseError } from "../../../src/store/files/database_error.ts";
import { WatchedFiles } from "../../../src/store/files/watch.ts";
import { eachPlace, KEY, makeBackup, PLANT } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { canMount, SmallDisk } from "../../support/small_disk.ts";
import { test, testsIf } from "../../support/tests.ts";

const onSmallDisk = testsIf(canMount());

/** Opens a store with one plant, and returns its files. */
async function openFiles(path: string) {
  const kv = await Deno.openKv(resolveLinks(path));
  await kv.set(KEY, PLANT);
  return { kv, files: new WatchedFiles(path, Deno.statSync(path)) };
}

/** Asserts that the store is lost, and how. */
function assertLost(found: unknown, how: string): void {
  assert.ok(found instanceof DatabaseError, `${found}`);
  assert.deepEqual([found.problem, found.message], ["lost", how]);
}

for (const accident of ["deleted or moved", "replaced"]) {
  eachPlace.test(`WatchedFiles finds that a database was ${accident}`, async ({ path, real }) => {
    await makeBackup(`${real}.other`);
    const { kv, files } = await openFiles(path);
    using _ = kv;
    assert.equal(files.checkDatabase(), undefined);
    assert.equal(files.check(), undefined);
    assert.equal(files.loss, undefined);
    Deno.renameSync(real, `${real}.away`);
    if (accident === "replaced") Deno.renameSync(`${real}.other`, real);
    const loss = files.checkDatabase();
    assertLost(loss, `it was ${accident}`);
    // The loss lasts: plants may be lost by now.
    Deno.renameSync(`${real}.away`, real);
    assert.equal(files.checkDatabase(), loss);
    assert.equal(files.check(), loss);
    assert.equal(files.loss, loss);
  });
}

onSmallDisk.test("WatchedFiles finds that a database was replaced by one with its inode number on another file system", async ({ directory }) => {
  using one = new SmallDisk(4);
  using other = new SmallDisk(4);
  const link = directory.file("plants.db");
  Deno.symlinkSync(one.file("plants.db"), link);
  const { kv, files } = await openFiles(link);
  using _ = kv;
  assert.equal(files.check(), undefined);
  const { ino } = Deno.statSync(link);
  Deno.createSync(other.file("plants.db")).close();
  Deno.removeSync(link);
  Deno.symlinkSync(other.file("plants.db"), link);
  assert.equal(Deno.statSync(link).ino, ino);
  assertLost(files.check(), "it was replaced");
});

eachPlace.test("WatchedFiles finds that the log of the database, or its index, was deleted or replaced", async ({ path, real }) => {
  for (const suffix of ["-wal", "-shm"]) {
    for (const isReplaced of [false, true]) {
      const { kv, files } = await openFiles(path);
      const sidecar = real + suffix;
      Deno.renameSync(sidecar, `${real}.away`);
      if (isReplaced) Deno.createSync(sidecar).close();
      assert.equal(files.checkDatabase(), undefined);
      const loss = files.check();
      assertLost(loss, `its ${basename(sidecar)} was deleted or replaced`);
      assert.equal(files.checkDatabase(), loss);
      Deno.renameSync(`${real}.away`, sidecar);
      assert.equal(files.check(), loss);
      kv.close();
    }
  }
});

test("WatchedFiles finds that a database was replaced while it was opened", async ({ directory, store: path }) => {
  await makeBackup(path);
  const before = Deno.statSync(path);
  await makeBackup(directory.file("other.db"));
  Deno.renameSync(directory.file("other.db"), path);
  using _kv = await Deno.openKv(path);
  const files = new WatchedFiles(path, before);
  assertLost(files.checkDatabase(), "it was replaced");
});

eachPlace.test("WatchedFiles finds that a database was moved, and a link to it is in its place", async ({ path, real }) => {
  const { kv, files } = await openFiles(path);
  using _ = kv;
  Deno.renameSync(real, `${real}.away`);
  Deno.symlinkSync(`${real}.away`, real);
  assertLost(
    files.checkDatabase(),
    "it was moved, and a link to it is in its place",
  );
});

eachPlace.test("WatchedFiles finds that a database became shorter", async ({ path, real }) => {
  const { kv, files } = await openFiles(path);
  using _ = kv;
  assert.equal(files.checkDatabase(), undefined);
  const { size } = Deno.statSync(real);
  assert.equal(files.bytes, size);
  Deno.truncateSync(real, size - 1);
  storeError("cut", /^it became shorter$/)(files.checkDatabase());
});

eachPlace.test("renameLog() renames the log of a database that is not in its place, and its index, to names that SQLite takes together", async ({ path, real }) => {
  const names = () =>
    [...Deno.readDirSync(dirname(real))].map(({ name }) => name)
      .filter((name) => name.startsWith("plants.db")).toSorted();
  for (const isReplaced of [false, true]) {
    const { kv, files } = await openFiles(path);
    files.renameLog();
    assert.deepEqual(names(), ["plants.db", "plants.db-shm", "plants.db-wal"]);
    Deno.removeSync(real);
    if (isReplaced) Deno.createSync(real).close();
    const log = Deno.readFileSync(`${real}-wal`);
    files.renameLog();
    const [index = "", renamed = "", ...others] = names()
      .filter((name) => name !== "plants.db");
    assert.match(renamed, /^plants\.db\.old-[\dT.-]+Z-wal$/);
    assert.equal(index, renamed.replace(/wal$/, "shm"));
    assert.deepEqual(others, []);
    assert.deepEqual(Deno.readFileSync(`${dirname(real)}/${renamed}`), log);
    kv.close();
    for (const name of names()) Deno.removeSync(`${dirname(real)}/${name}`);
  }
});

test("renameLog() keeps the files of another store, and of one that was cut", async ({ directory, store: path }) => {
  for (const isCut of [false, true]) {
    const { kv, files } = await openFiles(path);
    using _ = kv;
    files.check();
    if (isCut) Deno.truncateSync(path, 0);
    else {
      for (const name of directory.names()) {
        Deno.removeSync(directory.file(name));
        Deno.createSync(directory.file(name)).close();
      }
    }
    const names = directory.names();
    assert.ok(names.includes("plants.db-wal"));
    assert.ok(files.check() !== undefined);
    files.renameLog();
    assert.deepEqual(directory.names(), names);
    for (const name of names) Deno.removeSync(directory.file(name));
  }
});

test("renameLog() ignores that the directory is gone", async ({ directory }) => {
  Deno.mkdirSync(directory.file("data"));
  const { kv, files } = await openFiles(directory.file("data/plants.db"));
  using _ = kv;
  Deno.removeSync(directory.file("data"), { recursive: true });
  files.renameLog();
  assert.deepEqual(directory.names(), []);
});

test("WatchedFiles finds that a link leads to another database by now", async ({ directory, store: path }) => {
  const [one, other] = [directory.file("one.db"), directory.file("other.db")];
  Deno.symlinkSync(one, path);
  const { kv, files } = await openFiles(path);
  using _ = kv;
  await makeBackup(other);
  Deno.removeSync(path);
  Deno.symlinkSync(other, path);
  assertLost(files.checkDatabase(), "it was replaced");
});

test("WatchedFiles reports what it cannot examine, which is no loss", async ({ directory }) => {
  const data = directory.file("data");
  Deno.mkdirSync(data);
  const { kv, files } = await openFiles(`${data}/plants.db`);
  using _ = kv;
  Deno.renameSync(data, `${data}.away`);
  // As EIO, ENOMEM or EACCES, but for root as well.
  Deno.symlinkSync(data, data);
  for (const check of [() => files.checkDatabase(), () => files.check()]) {
    storeError("bad path", /^Too many levels of symbolic links/)(check());
  }
  assert.equal(files.loss, undefined);
  Deno.removeSync(data);
  Deno.renameSync(`${data}.away`, data);
  assert.equal(files.check(), undefined);
});
