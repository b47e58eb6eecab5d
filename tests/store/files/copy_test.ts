import assert from "node:assert/strict";
import { copyStore } from "../../../src/store/files/copy.ts";
import { inspect } from "../../../src/store/files/inspect.ts";
import { StoreError } from "../../../src/store_error.ts";
import { overwrite, repeatPage } from "../../support/damage.ts";
import { entriesOf } from "../../support/entries.ts";
import { makeLog, makeStore, PLANT } from "../../support/places.ts";
import { storeError } from "../../support/stores.ts";
import { test } from "../../support/tests.ts";

/** Makes a store of many pages, whose last ones are damaged. */
async function makeDamaged(path: string): Promise<void> {
  {
    using kv = await Deno.openKv(path);
    for (let id = 0; id < 10; id++) await kv.set([id], "x".repeat(10_000));
  }
  overwrite(path, Deno.statSync(path).size - 8_192);
}

/** Makes a store in which a page is in the place of another one. */
async function makeRepeated(path: string): Promise<void> {
  {
    using kv = await Deno.openKv(path);
    // As many entries in each page, which SQLite's `quick_check` does not tell apart.
    for (let id = 1_000n; id < 1_300n; id++) {
      await kv.set(["plants", id], { name: "x".repeat(100) });
    }
  }
  assert.ok(repeatPage(path, 1));
}

test("copyStore() copies a store with its log to one file that is not in WAL mode, and returns its number of entries", async ({ directory, store: path }) => {
  const copy = directory.file("copy.db");
  using kv = await Deno.openKv(path);
  await kv.set(["plants", 1n], PLANT);
  await kv.set(["other"], 1);
  const log = Deno.readFileSync(`${path}-wal`);
  assert.ok(log.length > 0);
  assert.equal(await copyStore(path, copy), 2);
  assert.deepEqual(Deno.readFileSync(`${path}-wal`), log);
  const names = ["copy.db", "plants.db", "plants.db-shm", "plants.db-wal"];
  assert.deepEqual(directory.names(), names);
  // A log beside it would belong to another database.
  await makeLog(`${copy}-wal`);
  assert.throws(() => inspect(copy), storeError("foreign log"));
  Deno.removeSync(`${copy}-wal`);
  using copied = await Deno.openKv(copy);
  assert.deepEqual(await entriesOf(copied), await entriesOf(kv));
});

for (
  const [what, make, kind] of [
    ["a missing store", () => {}, "path"],
    ["a store with damaged pages", makeDamaged, "corrupt"],
    ["a store with a repeated page", makeRepeated, "corrupt"],
  ] as const
) {
  test(`copyStore() refuses ${what}, and leaves it alone`, async ({ directory, store: path }) => {
    await make(path);
    const names = directory.names();
    const copied = copyStore(path, directory.file("copy.db"));
    await assert.rejects(copied, storeError(kind));
    const left = directory.names().filter((name) => name !== "copy.db");
    assert.deepEqual(left, names);
  });
}

test("copyStore() throws the error of SQLite if the copy cannot be written", async ({ directory, store: path }) => {
  await makeStore(path);
  const copied = copyStore(path, directory.file("missing/copy.db"));
  await assert.rejects(copied, (error) => !(error instanceof StoreError));
  assert.deepEqual(directory.names(), ["plants.db"]);
});
