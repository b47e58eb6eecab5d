import assert from "node:assert/strict";
import { removePlants } from "../../src/commands/change.ts";
import { openStore, type StoreLocation } from "../../src/store/open.ts";
import { changePlant } from "../../src/store/plants.ts";
import { noAnswer } from "../../src/store/store_error.ts";
import { capture } from "../support/console.ts";
import { entriesIn, makeStore, newPlants } from "../support/plants.ts";
import { closing, fileAt, isStoreError, LOCKED } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Creates a store with the plants 1 to 3, and returns its location. */
async function makeThree(path: string): Promise<StoreLocation> {
  await makeStore(path, newPlants([1n, 2n, 3n]));
  return fileAt(path);
}

/** Returns the ids of a store. */
async function idsOf(path: string): Promise<unknown[]> {
  return (await entriesIn(path)).map(([[, id]]) => id);
}

Deno.test("removePlants() removes the plants of ids from an open store, and fails if an id has none", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const location = await makeThree(path);
  const { store } = await openStore(location, true);
  using _open = closing(store);
  for (
    const [ids, status, stderr, left] of [
      [[1n, 1n, 0n], 1, "id 0: no such plant\n1 plant removed", [2n, 3n]],
      [[3n, 2n], 0, "2 plants removed", []],
    ] as const
  ) {
    const printed = await capture(() => removePlants(location, ids));
    assert.deepEqual(printed, { result: status, stdout: "", stderr });
    assert.deepEqual(await idsOf(path), left);
  }
});

for (
  const [what, kind, error, lines] of [
    [
      "gets no answer",
      "no answer",
      noAnswer(5_000),
      ["id 2: the plant may have been removed", "1 plant removed"],
    ],
    [
      "meets the lock of another process",
      "locked",
      LOCKED,
      ["1 plant removed"],
    ],
  ] as const
) {
  Deno.test(`removePlants() stops at the first plant whose removal ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const location = await makeThree(path);
    /** Fails for one plant. */
    const change: typeof changePlant = (store, id, plant) =>
      id === 2n ? Promise.reject(error) : changePlant(store, id, plant);
    const { stderr } = await capture(() =>
      assert.rejects(
        removePlants(location, [1n, 2n, 3n], { change }),
        isStoreError(kind),
      )
    );
    assert.equal(stderr, lines.join("\n"));
    assert.deepEqual(await idsOf(path), [2n, 3n]);
  });
}

Deno.test("removePlants() creates no store", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const missing = isStoreError("no store", "no such file");
  await assert.rejects(removePlants(fileAt(path), [1n]), missing);
  assert.deepEqual(directory.names(), []);
});
