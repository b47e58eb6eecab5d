import assert from "node:assert/strict";
import { dirname } from "node:path";
import { WatchedFiles } from "../../../src/store/files/watch.ts";
import { eachPlace, KEY, makeBackup, PLANT } from "../../support/places.ts";
import { canMount, SmallDisk } from "../../support/small_disk.ts";
import { test, testsIf } from "../../support/tests.ts";

const onSmallDisk = testsIf(canMount());

/** Opens a store with one plant, and returns its files. */
async function openFiles(path: string) {
  const kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  return { kv, files: new WatchedFiles(path, Deno.statSync(path)) };
}

for (const accident of ["deleted or moved", "replaced"]) {
  eachPlace.test(`WatchedFiles reports a database that was ${accident}`, async ({ path, real }) => {
    await makeBackup(`${real}.other`);
    const { kv, files } = await openFiles(path);
    using _ = kv;
    assert.equal(files.checkDatabase(), undefined);
    assert.equal(files.check(), undefined);
    assert.equal(files.loss, undefined);
    Deno.renameSync(real, `${real}.away`);
    if (accident === "replaced") Deno.renameSync(`${real}.other`, real);
    const problem = `it was ${accident}`;
    assert.equal(files.checkDatabase(), problem);
    // The problem lasts: plants may be lost by now.
    Deno.renameSync(`${real}.away`, real);
    assert.equal(files.checkDatabase(), problem);
    assert.equal(files.check(), problem);
    assert.equal(files.loss, problem);
  });
}

onSmallDisk.test("WatchedFiles reports a database that was replaced by one with its inode number on another file system", async ({ directory }) => {
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
  assert.equal(files.check(), "it was replaced");
});

eachPlace.test("WatchedFiles reports a log of the database, or its index, that was deleted or replaced", async ({ path, real }) => {
  for (const suffix of ["-wal", "-shm"]) {
    for (const isReplaced of [false, true]) {
      const { kv, files } = await openFiles(path);
      const sidecar = real + suffix;
      Deno.renameSync(sidecar, `${real}.away`);
      if (isReplaced) Deno.createSync(sidecar).close();
      assert.equal(files.checkDatabase(), undefined);
      const problem = `its plants.db${suffix} was deleted or replaced`;
      assert.equal(files.check(), problem);
      assert.equal(files.checkDatabase(), problem);
      Deno.renameSync(`${real}.away`, sidecar);
      assert.equal(files.check(), problem);
      kv.close();
    }
  }
});

test("WatchedFiles reports a database that was replaced while it was opened", async ({ directory, store: path }) => {
  await makeBackup(path);
  const before = Deno.statSync(path);
  await makeBackup(directory.file("other.db"));
  Deno.renameSync(directory.file("other.db"), path);
  using _kv = await Deno.openKv(path);
  const files = new WatchedFiles(path, before);
  assert.equal(files.checkDatabase(), "it was replaced");
});

eachPlace.test("WatchedFiles reports a database that was moved, and a link to it in its place", async ({ path, real }) => {
  const { kv, files } = await openFiles(path);
  using _ = kv;
  Deno.renameSync(real, `${real}.away`);
  Deno.symlinkSync(`${real}.away`, real);
  assert.equal(files.checkDatabase(), "it was moved");
  assert.equal(files.loss, "it was moved");
});

eachPlace.test("WatchedFiles reports a database that was cut", async ({ path, real }) => {
  const { kv, files } = await openFiles(path);
  using _ = kv;
  assert.equal(files.checkDatabase(), undefined);
  Deno.truncateSync(real, Deno.statSync(real).size - 1);
  assert.equal(files.checkDatabase(), "it was cut");
});

eachPlace.test("setAside() renames the log of a database that is not in its place, and its index", async ({ path, real }) => {
  const names = () =>
    [...Deno.readDirSync(dirname(real))].map(({ name }) => name)
      .filter((name) => name.startsWith("plants.db")).toSorted();
  for (const isReplaced of [false, true]) {
    const { kv, files } = await openFiles(path);
    files.setAside();
    assert.deepEqual(names(), ["plants.db", "plants.db-shm", "plants.db-wal"]);
    Deno.removeSync(real);
    if (isReplaced) Deno.createSync(real).close();
    const log = Deno.readFileSync(`${real}-wal`);
    files.setAside();
    const left = names().filter((name) => name !== "plants.db");
    assert.match(
      left.join(),
      /^plants\.db\.left-[^,]+Z-shm,plants\.db\.left-[^,]+Z-wal$/,
    );
    assert.deepEqual(Deno.readFileSync(`${dirname(real)}/${left[1]}`), log);
    // Files of another store are not touched.
    for (const suffix of ["-wal", "-shm"]) {
      Deno.createSync(real + suffix).close();
    }
    files.setAside();
    assert.ok(names().includes("plants.db-wal"));
    kv.close();
    for (const name of names()) Deno.removeSync(`${dirname(real)}/${name}`);
  }
});

test("setAside() renames a cut database, with its log and its index", async ({ directory, store: path }) => {
  const { kv, files } = await openFiles(path);
  using _ = kv;
  files.check();
  Deno.truncateSync(path, 0);
  files.check();
  files.setAside();
  const names = directory.names().map((name) => name.replace(/-[\dT.-]+Z/, ""));
  assert.deepEqual(names.toSorted(), [
    "plants.db.left",
    "plants.db.left-shm",
    "plants.db.left-wal",
  ]);
});

test("WatchedFiles reports a link that leads to another database by now", async ({ directory, store: path }) => {
  const [one, other] = [directory.file("one.db"), directory.file("other.db")];
  Deno.symlinkSync(one, path);
  const { kv, files } = await openFiles(path);
  using _ = kv;
  await makeBackup(other);
  Deno.removeSync(path);
  Deno.symlinkSync(other, path);
  assert.equal(files.checkDatabase(), "it was replaced");
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
    assert.match(check() ?? "", /^Too many levels of symbolic links/);
  }
  assert.equal(files.loss, undefined);
  Deno.removeSync(data);
  Deno.renameSync(`${data}.away`, data);
  assert.equal(files.check(), undefined);
});
