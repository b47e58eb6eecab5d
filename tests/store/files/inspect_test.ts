import assert from "node:assert/strict";
import { basename } from "node:path";
import { toFileError } from "../../../src/files/file_error.ts";
import {
  findStore,
  foreignLogOf,
  leaveWalMode,
  requireStore,
  sidecarsOf,
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

eachPlace.test("findStore() refuses a missing or an empty file beside a log", async ({ path, real }) => {
  for (const exists of [false, true]) {
    if (exists) Deno.createSync(real).close();
    assert.equal(findStore(path), false);
    await makeLog(`${real}-wal`);
    const missing = storeError(
      "missing database",
      `${basename(path)} is missing or empty, but its log is here: ${real}-wal`,
    );
    assert.throws(() => findStore(path), missing);
    assert.throws(() => requireStore(path), missing);
    assert.equal(foreignLogOf(path), `${real}-wal`);
    Deno.removeSync(`${real}-wal`);
    assert.equal(findStore(path), false);
    assert.deepEqual(sidecarsOf(path), []);
  }
});

eachPlace.test("findStore() refuses a backup beside a log", async ({ path, real }) => {
  await makeBackup(real);
  assert.equal(findStore(path), true);
  await makeLog(`${real}-wal`);
  const content = Deno.readFileSync(real);
  const message = `${real}-wal belongs to another database`;
  const foreign = storeError("foreign log", message);
  assert.throws(() => findStore(path), foreign);
  assert.throws(() => requireStore(path), foreign);
  assert.equal(foreignLogOf(path), `${real}-wal`);
  assert.deepEqual(Deno.readFileSync(real), content);
});

test("findStore() refuses a link with the log of its database beside it, and accepts a link to that log", async ({ directory, store: path }) => {
  const real = directory.file("real.db");
  await makeStore(real);
  Deno.symlinkSync("real.db", path);
  assert.equal(findStore(path), true);
  const makeEmpty = (path: string) => Deno.createSync(path).close();
  for (const make of [makeLog, makeEmpty]) {
    await make(`${path}-wal`);
    const message =
      `it is a link, but the log of its database is beside the link: ${path}-wal`;
    const refused = storeError("log beside link", message);
    assert.throws(() => findStore(path), refused);
    Deno.removeSync(`${path}-wal`);
  }
  Deno.createSync(`${real}-wal`).close();
  Deno.symlinkSync("real.db-wal", `${path}-wal`);
  assert.equal(findStore(path), true);
});

eachPlace.test("findStore() accepts a store and its own log, and keeps its files", async ({ path, real }) => {
  using kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  assert.ok(Deno.statSync(`${real}-wal`).size > 0);
  assert.equal(findStore(path), true);
  assert.equal(foreignLogOf(path), undefined);
  for (const suffix of ["", "-wal", "-shm"]) Deno.statSync(real + suffix);
});

eachPlace.test("sidecarsOf() finds the files beside the database", ({ path, real }) => {
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
});

test("an empty log beside a missing file or a backup is not foreign", async ({ store: path }) => {
  Deno.createSync(`${path}-wal`).close();
  assert.equal(findStore(path), false);
  Deno.removeSync(`${path}-wal`);
  await makeBackup(path);
  Deno.createSync(`${path}-wal`).close();
  assert.equal(findStore(path), true);
});

test("findStore() leaves no files beside a closed store", async ({ directory, store: path }) => {
  await makeStore(path);
  findStore(path);
  assert.deepEqual(directory.names(), ["plants.db"]);
});

test("leaveWalMode() makes a log beside a copy foreign, and leaves no files beside it", async ({ directory, store: path }) => {
  await makeStore(path);
  await makeLog(`${path}-wal`);
  assert.equal(foreignLogOf(path), undefined);
  Deno.removeSync(`${path}-wal`);
  leaveWalMode(path);
  assert.deepEqual(directory.names(), ["plants.db"]);
  await makeLog(`${path}-wal`);
  assert.equal(foreignLogOf(path), `${path}-wal`);
});

test("findStore() reports what it cannot examine, and opens no pipe", async ({ directory }) => {
  const link = (target: string, name: string) =>
    Deno.symlinkSync(target, directory.file(name));
  link("loop.db", "loop.db");
  link("log.db-wal", "log.db-wal");
  // The header of a directory cannot be read.
  Deno.mkdirSync(directory.file("directory.db"));
  Deno.writeTextFileSync(directory.file("directory.db-wal"), "a");
  await runTool("mkfifo", [directory.file("pipe.db")]);
  for (
    const [name, problem, message] of [
      ["loop.db", "bad path", /^Too many levels of symbolic links/],
      ["log.db", "bad path", /^Too many levels of symbolic links/],
      ["directory.db", "directory", "it is a directory"],
      ["pipe.db", "not a store", "not a Deno KV store"],
    ] as const
  ) {
    assert.throws(
      () => findStore(directory.file(name)),
      (error) => storeError(problem, message)(toFileError(error)),
    );
  }
});

test("findStore() refuses a store whose log is missing if its index shows plants that only the log has", async ({ directory, store: path }) => {
  const kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
  const killed = directory.file("killed.db");
  Deno.copyFileSync(path, killed);
  Deno.copyFileSync(`${path}-shm`, `${killed}-shm`);
  kv.close();
  const log = `${Deno.realPathSync(directory.path)}/killed.db-wal`;
  const missing = storeError("missing log", `its log is missing: ${log}`);
  assert.throws(() => findStore(killed), missing);
  assert.throws(() => requireStore(killed), missing);
  // All plants are in the database of a store that was closed.
  Deno.copyFileSync(`${killed}-shm`, `${path}-shm`);
  using index = Deno.openSync(`${path}-shm`, { read: true, write: true });
  const frames = new Uint8Array(4);
  index.seekSync(16, Deno.SeekMode.Start);
  index.readSync(frames);
  index.seekSync(96, Deno.SeekMode.Start);
  index.writeSync(frames);
  assert.equal(findStore(path), true);
  for (const content of [new Uint8Array(32_768), new Uint8Array()]) {
    Deno.writeFileSync(`${path}-shm`, content);
    assert.equal(findStore(path), true);
  }
});

test("a file of no or one byte is where a store can be created, as SQLite sees it", ({ store: path }) => {
  for (const text of ["", "a"]) {
    Deno.writeTextFileSync(path, text);
    assert.equal(findStore(path), false);
    const empty = storeError("missing", "it is empty");
    assert.throws(() => requireStore(path), empty);
  }
  Deno.removeSync(path);
  const missing = storeError("missing", "no such file");
  assert.throws(() => requireStore(path), missing);
});
