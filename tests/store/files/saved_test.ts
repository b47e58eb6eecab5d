import assert from "node:assert/strict";
import {
  findSavedFile,
  isComplete,
  markImported,
  newSavedFile,
  refuseLongName,
  savedFilesOf,
} from "../../../src/store/files/saved.ts";
import { STORE_NAME_BYTES_MAX } from "../../../src/limits.ts";
import { eachPlace } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { test, testsIf } from "../../support/tests.ts";

/** Root may list every directory. */
const byUser = testsIf(Deno.uid() !== 0);

const SAVED = [2024, 2025, 2026]
  .map((year) => `plants.db.rescued-${year}-01-01T000000.000Z.jsonl`);

/** A file that is being written. */
const PARTIAL = "plants.db.rescued-2027-01-01T000000.000Z.jsonl.partial";

test("savedFilesOf() returns the saved files beside a store in their order, complete or not, and no other file", ({ directory, store: path }) => {
  assert.deepEqual(savedFilesOf(directory.file("missing/plants.db")), []);
  for (
    const name of [
      "plants.db",
      "plants.db-wal",
      "plants.db.replaced-2027-01-01T000000.000Z",
      "other-plants.db.rescued-2027-01-01T000000.000Z.jsonl",
      `${SAVED[0]}.imported`,
      `${PARTIAL}.imported`,
    ]
  ) Deno.createSync(directory.file(name)).close();
  assert.deepEqual(savedFilesOf(path), []);
  const names = [...SAVED, PARTIAL];
  for (const name of names.toReversed()) {
    Deno.createSync(directory.file(name)).close();
  }
  const files = names.map((name) => directory.file(name));
  assert.deepEqual(savedFilesOf(path), files);
  assert.deepEqual(files.map(isComplete), [true, true, true, false]);
});

test("findSavedFile() finds a saved file by any of its names, and no other file", ({ directory, store: path }) => {
  const [saved = "", ...others] = [...SAVED, PARTIAL]
    .map((name) => directory.file(name));
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

eachPlace.test("a saved file is beside the real store, where both of its paths find it", ({ path, real }) => {
  const saved = newSavedFile(path, real);
  assert.ok(saved.startsWith(`${real}.rescued-`), saved);
  Deno.createSync(saved).close();
  assert.deepEqual(savedFilesOf(path), [saved]);
  assert.deepEqual(savedFilesOf(real), [saved]);
});

eachPlace.test("a saved file is beside the path if that leads elsewhere than to the lost store", ({ path, real }) => {
  const saved = newSavedFile(path, `${real}.lost`);
  assert.ok(saved.startsWith(`${path}.rescued-`), saved);
  Deno.createSync(saved).close();
  const found = savedFilesOf(path).map(Deno.realPathSync);
  assert.deepEqual(found, [Deno.realPathSync(saved)]);
});

test("refuseLongName() refuses a store whose name, or that of its link, leaves no room for a saved file", ({ directory }) => {
  const longest = directory.file("ü".repeat(STORE_NAME_BYTES_MAX / 2));
  refuseLongName(longest);
  const saved = newSavedFile(longest, longest);
  Deno.createSync(`${saved}.partial`).close();
  assert.equal(savedFilesOf(longest).length, 1);
  markImported(`${saved}.partial`);
  const tooLong = `${longest}x`;
  const link = directory.file("link.db");
  Deno.symlinkSync(tooLong, link);
  const message = "the name of the store has 201 bytes, and may have 200";
  for (const path of [tooLong, link]) {
    assert.throws(() => refuseLongName(path), storeError("bad path", message));
  }
});
