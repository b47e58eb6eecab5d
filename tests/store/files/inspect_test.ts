import assert from "node:assert/strict";
import { basename } from "node:path";
import { toFileError } from "../../../src/files/file_error.ts";
import {
  filesOf,
  inspect,
  requireStore,
} from "../../../src/store/files/inspect.ts";
import {
  eachPlace,
  KEY,
  makeBackup,
  makeLog,
  makeStore,
  PLANT,
} from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { runTool } from "../../support/tools.ts";
import { test } from "../../support/tests.ts";

eachPlace.test("inspect() refuses a missing or an empty file beside a log", async ({ path, real }) => {
  for (const found of ["nothing", "empty"] as const) {
    if (found === "empty") Deno.createSync(real).close();
    assert.equal(inspect(path), found);
    await makeLog(`${real}-wal`);
    storeError(
      "missing database",
      `${basename(real)} is missing or empty, but its log is here: ${real}-wal`,
    )(inspect(path));
    Deno.removeSync(`${real}-wal`);
    assert.equal(inspect(path), found);
    assert.deepEqual(filesOf(path), found === "empty" ? [real] : []);
  }
});

eachPlace.test("inspect() refuses a backup beside a log", async ({ path, real }) => {
  await makeBackup(real);
  assert.equal(inspect(path), "store");
  await makeLog(`${real}-wal`);
  const content = Deno.readFileSync(real);
  const message = `${real}-wal belongs to another database`;
  storeError("foreign log", message)(inspect(path));
  assert.deepEqual(Deno.readFileSync(real), content);
});

test("inspect() refuses a link with the log of its database beside it, and accepts a link to that log", async ({ directory, store: path }) => {
  const real = directory.file("real.db");
  await makeStore(real);
  Deno.symlinkSync("real.db", path);
  assert.equal(inspect(path), "store");
  const makeEmpty = (path: string) => Deno.createSync(path).close();
  for (const make of [makeLog, makeEmpty]) {
    await make(`${path}-wal`);
    const message =
      `it is a link, but the log of its database is beside the link: ${path}-wal`;
    storeError("log beside link", message)(inspect(path));
    Deno.removeSync(`${path}-wal`);
  }
  Deno.createSync(`${real}-wal`).close();
  Deno.symlinkSync("real.db-wal", `${path}-wal`);
  assert.equal(inspect(path), "store");
});

eachPlace.test("inspect() accepts a store and its own log, and keeps its files", async ({ path, real }) => {
  using kv = await Deno.openKv(real);
  await kv.set(KEY, PLANT);
  assert.ok(Deno.statSync(`${real}-wal`).size > 0);
  assert.equal(inspect(path), "store");
  const files = ["", "-wal", "-shm"].map((suffix) => real + suffix);
  assert.deepEqual(filesOf(path), files);
});

eachPlace.test("filesOf() finds the files of a database, and no others beside it", ({ path, real }) => {
  for (const other of ["-wal2", ".wal", "wal"]) {
    Deno.createSync(real + other).close();
  }
  assert.deepEqual(filesOf(path), []);
  const files = ["", "-wal", "-shm", "-journal"].map((it) => real + it);
  for (const file of files) {
    Deno.createSync(file).close();
    assert.deepEqual(filesOf(path), [file]);
    Deno.removeSync(file);
  }
  for (const file of files) Deno.createSync(file).close();
  assert.deepEqual(filesOf(path), files);
});

test("inspect() accepts an empty log beside a missing file or a backup", async ({ store: path }) => {
  Deno.createSync(`${path}-wal`).close();
  assert.equal(inspect(path), "nothing");
  Deno.removeSync(`${path}-wal`);
  await makeBackup(path);
  Deno.createSync(`${path}-wal`).close();
  assert.equal(inspect(path), "store");
});

test("inspect() reports what it cannot examine, and opens no pipe", async ({ directory }) => {
  const link = (target: string, name: string) =>
    Deno.symlinkSync(target, directory.file(name));
  link("loop.db", "loop.db");
  link("log.db-wal", "log.db-wal");
  // The header of a directory cannot be read.
  Deno.mkdirSync(directory.file("headless.db"));
  Deno.writeTextFileSync(directory.file("headless.db-wal"), "a");
  for (
    const [name, problem] of [
      ["loop.db", "bad path"],
      ["log.db", "bad path"],
      ["headless.db", "directory"],
    ] as const
  ) {
    assert.throws(
      () => inspect(directory.file(name)),
      (error) => storeError(problem)(toFileError(error)),
    );
  }
  storeError("directory", "it is a directory")(inspect(directory.path));
  const pipe = directory.file("pipe.db");
  await runTool("mkfifo", [pipe]);
  storeError("not a store", "not a Deno KV store")(inspect(pipe));
});

test("inspect() refuses a store whose log is missing if its index shows plants that only the log has", async ({ directory, store: path }) => {
  const kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  const killed = directory.file("killed.db");
  Deno.copyFileSync(path, killed);
  Deno.copyFileSync(`${path}-shm`, `${killed}-shm`);
  kv.close();
  const log = `${Deno.realPathSync(directory.path)}/killed.db-wal`;
  storeError("missing log", `its log is missing: ${log}`)(inspect(killed));
  // All plants are in the database of a store that was closed.
  const index = Deno.readFileSync(`${killed}-shm`);
  const numbers = new DataView(index.buffer);
  const frames = numbers.getUint32(16, true);
  assert.ok(frames > 1);
  for (const copied of [frames - 1, frames]) {
    numbers.setUint32(96, copied, true);
    Deno.writeFileSync(`${path}-shm`, index);
    if (copied < frames) storeError("missing log")(inspect(path));
    else assert.equal(inspect(path), "store");
  }
  for (const content of [new Uint8Array(32_768), new Uint8Array()]) {
    Deno.writeFileSync(`${path}-shm`, content);
    assert.equal(inspect(path), "store");
  }
});

test("inspect() reads all of a header, even a byte at a time", async ({ store: path }) => {
  await makeStore(path);
  await makeLog(`${path}-wal`);
  const { prototype } = Deno.FsFile;
  const { readSync } = prototype;
  prototype.readSync = function (bytes) {
    return readSync.call(this, bytes.subarray(0, 1));
  };
  try {
    assert.equal(inspect(path), "store");
  } finally {
    prototype.readSync = readSync;
  }
});

test("requireStore() throws what is at a path without a store", async ({ store: path }) => {
  const missing = storeError("missing", "no such file");
  assert.throws(() => requireStore(path), missing);
  // SQLite sees nothing in one byte either.
  for (const text of ["", "a"]) {
    Deno.writeTextFileSync(path, text);
    assert.equal(inspect(path), "empty");
    const empty = storeError("missing", "it is empty");
    assert.throws(() => requireStore(path), empty);
  }
  await makeLog(`${path}-wal`);
  assert.throws(() => requireStore(path), storeError("foreign log"));
  Deno.removeSync(`${path}-wal`);
  await makeStore(path);
  requireStore(path);
});
