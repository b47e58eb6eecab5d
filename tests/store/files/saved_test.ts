import assert from "node:assert/strict";
import {
  findSavedFile,
  markImported,
  newSavedFile,
  savedFilesOf,
} from "../../../src/store/files/saved.ts";
import { eachPlace } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { test, testsIf } from "../../support/tests.ts";

/** Root may list every directory. */
const byUser = testsIf(Deno.uid() !== 0);

const SAVED = [2024, 2025, 2026]
  .map((year) => `plants.db.rescued-${year}-01-01T000000.000Z.jsonl`);

test("savedFilesOf() returns the saved files beside a store in their order, and no other file", ({ directory, store: path }) => {
  assert.deepEqual(savedFilesOf(directory.file("missing/plants.db")), []);
  for (
    const name of [
      "plants.db",
      "plants.db-wal",
      "plants.db.replaced-2027-01-01T000000.000Z",
      "other-plants.db.rescued-2027-01-01T000000.000Z.jsonl",
      `${SAVED[0]}.1f2e3d4c.partial`,
      `${SAVED[0]}.imported`,
    ]
  ) Deno.createSync(directory.file(name)).close();
  assert.deepEqual(savedFilesOf(path), []);
  for (const name of SAVED.toReversed()) {
    Deno.createSync(directory.file(name)).close();
  }
  const files = SAVED.map((name) => directory.file(name));
  assert.deepEqual(savedFilesOf(path), files);
});

test("findSavedFile() finds a saved file by any of its names, and no other file", ({ directory, store: path }) => {
  const [saved = "", ...others] = SAVED.map((name) => directory.file(name));
  for (const file of [saved, ...others]) Deno.createSync(file).close();
  const [link, copy] = [directory.file("link"), directory.file("copy")];
  Deno.symlinkSync(saved, link);
  Deno.createSync(copy).close();
  for (const name of [saved, link]) {
    assert.equal(findSavedFile(path, name), saved);
  }
  for (const name of [copy, path, directory.file("missing")]) {
    assert.equal(findSavedFile(path, name), undefined);
  }
  assert.equal(markImported(saved), `${saved}.imported`);
  assert.deepEqual(savedFilesOf(path), others);
});

byUser.test("savedFilesOf() throws if the directory cannot be listed", ({ directory, store: path }) => {
  Deno.chmodSync(directory.path, 0o300);
  const message = `cannot list ${directory.path}: permission denied`;
  assert.throws(() => savedFilesOf(path), storeError("denied", message));
  Deno.chmodSync(directory.path, 0o700);
});

eachPlace.test("saved files are beside the real store", ({ path, real }) => {
  const saved = newSavedFile(path);
  assert.ok(saved.startsWith(`${real}.rescued-`), saved);
  Deno.createSync(saved).close();
  assert.deepEqual(savedFilesOf(path), [saved]);
  assert.deepEqual(savedFilesOf(real), [saved]);
});

test("a store with the longest name has saved files, too", ({ directory }) => {
  const path = directory.file("ü".repeat(127));
  const saved = newSavedFile(path);
  Deno.mkdirSync(`${saved}.00000000.partial`);
  Deno.createSync(saved).close();
  assert.deepEqual(savedFilesOf(path), [saved]);
  assert.equal(markImported(saved), `${saved}.imported`);
});
