import assert from "node:assert/strict";
import { isSameFile, WatchedFiles } from "../../../src/store/files/watch.ts";
import { makeStore } from "../../support/plants.ts";
import { isStoreError } from "../../support/stores.ts";
import { TemporaryDirectory } from "../../support/temporary.ts";

/** Opens a store with one plant, and returns its files. */
async function openFiles(path: string) {
  const kv = await Deno.openKv(path);
  await kv.set(["plants", 1n], { name: "Monstera" });
  return { kv, files: new WatchedFiles(path, Deno.statSync(path)) };
}

const DELETED = isStoreError("lost", "it was deleted or moved");
const REPLACED = isStoreError("lost", "it was replaced");

Deno.test("WatchedFiles finds that a database was deleted, replaced, or moved with a link to it in its place", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const { kv, files } = await openFiles(path);
  using _ = kv;
  files.verifyAll();
  assert.equal(files.databaseBytes, Deno.statSync(path).size);
  await makeStore(`${path}.other`);
  Deno.renameSync(path, `${path}.away`);
  assert.throws(() => files.verifyDatabase(), DELETED);
  assert.throws(() => files.verifyAll(), DELETED);
  for (const other of [`${path}.other`, `${path}.away`]) {
    Deno.symlinkSync(other, path);
    assert.throws(() => files.verifyDatabase(), REPLACED);
    Deno.removeSync(path);
  }
  Deno.renameSync(`${path}.other`, path);
  assert.throws(() => files.verifyDatabase(), REPLACED);
  Deno.renameSync(`${path}.away`, path);
  files.verifyAll();
});

Deno.test("WatchedFiles finds that the log of the database, or its index, was deleted or replaced", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const { kv, files } = await openFiles(path);
  using _ = kv;
  for (const suffix of ["-wal", "-shm"]) {
    const message = `its plants.db${suffix} was deleted or replaced`;
    const lost = isStoreError("lost", message);
    Deno.renameSync(path + suffix, `${path}.away`);
    assert.throws(() => files.verifyAll(), lost);
    Deno.createSync(path + suffix).close();
    files.verifyDatabase();
    assert.throws(() => files.verifyAll(), lost);
    Deno.renameSync(`${path}.away`, path + suffix);
    files.verifyAll();
  }
});

Deno.test("WatchedFiles finds that a database was replaced while it was opened", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await makeStore(path);
  const before = Deno.statSync(path);
  await makeStore(directory.file("other.db"));
  Deno.renameSync(directory.file("other.db"), path);
  using _kv = await Deno.openKv(path);
  const files = new WatchedFiles(path, before);
  assert.throws(() => files.verifyDatabase(), REPLACED);
});

Deno.test("WatchedFiles reports what it cannot examine, which is no loss", async () => {
  using directory = new TemporaryDirectory();
  const data = directory.file("data");
  Deno.mkdirSync(data);
  const { kv, files } = await openFiles(`${data}/plants.db`);
  using _ = kv;
  Deno.renameSync(data, `${data}.away`);
  // As EIO, ENOMEM or EACCES, but for root as well.
  Deno.symlinkSync(data, data);
  const loop = Deno.errors.FilesystemLoop;
  assert.throws(() => files.verifyDatabase(), loop);
  assert.throws(() => files.verifyAll(), loop);
  Deno.removeSync(data);
  Deno.renameSync(`${data}.away`, data);
  files.verifyAll();
});

Deno.test("isSameFile() compares the inode, and its file system", () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  Deno.createSync(path).close();
  const file = Deno.statSync(path);
  assert.ok(isSameFile(Deno.statSync(path), file));
  for (const other of [{ ino: 0 }, { dev: 0 }]) {
    assert.ok(!isSameFile({ ...file, ...other }, file));
  }
});
