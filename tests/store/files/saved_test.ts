import assert from "node:assert/strict";
import {
  findSaved,
  findSavedIn,
  markImported,
  newSavedFile,
  refuseLongName,
} from "../../../src/store/files/saved.ts";
import { STORE_NAME_BYTES_MAX } from "../../../src/limits.ts";
import { eachPlace } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { test, testsIf } from "../../support/tests.ts";

/** Root may list every directory. */
const byUser = testsIf(Deno.uid() !== 0);

const SAVED = [2024, 2025, 2026]
  .map((year) => `plants.db.rescued-${year}-01-01T000000.000Z.jsonl`);

/** A file that is being written, and the file in it. */
const PARTIAL = `plants.db.rescued-2023-01-01T000000.000Z.jsonl`;
const PARTIAL_DIRECTORY = `${PARTIAL}.1f2e3d4c.partial`;

/** Returns the paths of what was saved of a store. */
function savedPaths(path: string): string[] {
  return findSaved(path).map(({ path }) => path);
}

test("findSaved() returns the complete files in their order, then those being written, and no other file", ({ directory, store: path }) => {
  assert.deepEqual(findSaved(directory.file("missing/plants.db")), []);
  for (
    const name of [
      "plants.db",
      "plants.db-wal",
      "plants.db.replaced-2027-01-01T000000.000Z",
      "other-plants.db.rescued-2027-01-01T000000.000Z.jsonl",
      `${SAVED[0]}.imported`,
      `${PARTIAL_DIRECTORY}.imported`,
    ]
  ) Deno.createSync(directory.file(name)).close();
  assert.deepEqual(findSaved(path), []);
  Deno.mkdirSync(directory.file(PARTIAL_DIRECTORY));
  for (const name of SAVED.toReversed()) {
    Deno.createSync(directory.file(name)).close();
  }
  const partial = directory.file(PARTIAL_DIRECTORY);
  assert.deepEqual(findSaved(path), [
    ...SAVED.map((name) => directory.file(name))
      .map((path) => ({ path, file: path, isComplete: true })),
    { path: partial, file: `${partial}/${PARTIAL}`, isComplete: false },
  ]);
});

test("findSavedIn() finds a saved file by any of its names, complete or not, and no other file", ({ directory, store: path }) => {
  const [saved = "", ...others] = SAVED.map((name) => directory.file(name));
  const partial = directory.file(PARTIAL_DIRECTORY);
  Deno.mkdirSync(partial);
  const inPartial = `${partial}/${PARTIAL}`;
  for (const file of [saved, ...others, inPartial]) {
    Deno.createSync(file).close();
  }
  const [link, copy] = [directory.file("link"), directory.file("copy")];
  Deno.symlinkSync(saved, link);
  Deno.createSync(copy).close();
  for (const name of [saved, link]) {
    assert.equal(findSavedIn(path, name)?.path, saved);
  }
  assert.equal(findSavedIn(path, inPartial)?.path, partial);
  for (const name of [copy, path, partial, directory.file("missing")]) {
    assert.equal(findSavedIn(path, name), undefined);
  }
  for (const name of [saved, partial]) {
    assert.equal(markImported(name), `${name}.imported`);
  }
  assert.deepEqual(savedPaths(path), others);
});

byUser.test("findSaved() throws if the directory cannot be listed", ({ directory, store: path }) => {
  Deno.chmodSync(directory.path, 0o300);
  const message = `cannot list ${directory.path}: permission denied`;
  assert.throws(() => findSaved(path), storeError("denied", message));
  Deno.chmodSync(directory.path, 0o700);
});

eachPlace.test("a saved file is beside the real store, where both of its paths find it", ({ path, real }) => {
  const saved = newSavedFile(path, real);
  assert.ok(saved.startsWith(`${real}.rescued-`), saved);
  Deno.createSync(saved).close();
  assert.deepEqual(savedPaths(path), [saved]);
  assert.deepEqual(savedPaths(real), [saved]);
});

eachPlace.test("a saved file is beside the path if that leads elsewhere than to the lost store", ({ path, real }) => {
  const saved = newSavedFile(path, `${real}.lost`);
  assert.ok(saved.startsWith(`${path}.rescued-`), saved);
  Deno.createSync(saved).close();
  assert.deepEqual(
    savedPaths(path).map(Deno.realPathSync),
    [Deno.realPathSync(saved)],
  );
});

test("refuseLongName() refuses a store whose name, or that of its link, leaves no room for a saved file", ({ directory }) => {
  const longest = directory.file("ü".repeat(STORE_NAME_BYTES_MAX / 2));
  refuseLongName(longest);
  const saved = newSavedFile(longest, longest);
  Deno.mkdirSync(`${saved}.00000000.partial`);
  assert.equal(savedPaths(longest).length, 1);
  markImported(`${saved}.00000000.partial`);
  const tooLong = `${longest}x`;
  const link = directory.file("link.db");
  Deno.symlinkSync(tooLong, link);
  const message = "the name of the store has 191 bytes, and may have 190";
  for (const path of [tooLong, link]) {
    assert.throws(() => refuseLongName(path), storeError("bad path", message));
  }
});
