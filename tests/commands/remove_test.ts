import assert from "node:assert/strict";
import { removePlants } from "../../src/commands/remove.ts";
import { KvStore } from "../../src/store/kv_store.ts";
import { COMMIT_MS_MAX } from "../../src/limits.ts";
import type { StoreLocation } from "../../src/store/location.ts";
import { noAnswer } from "../../src/store/retry.ts";
import { openStore } from "../../src/store/open.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { capture } from "../support/console.ts";
import { execute } from "../support/damage.ts";
import { entriesOf } from "../support/entries.ts";
import { replaced } from "../support/replaced.ts";
import { makeStore } from "../support/places.ts";
import { newPlants } from "../support/plants.ts";
import { fileAt } from "../support/stores.ts";
import { test } from "../support/tests.ts";

/** Creates a store with the plants 1 to 3, and returns its location. */
async function makeThree(path: string): Promise<StoreLocation> {
  await makeStore(path, newPlants([1n, 2n, 3n]));
  return fileAt(path);
}

/** Returns the ids of a store. */
async function idsOf(path: string): Promise<unknown[]> {
  using kv = await Deno.openKv(path);
  return (await entriesOf(kv)).map(([[, id]]) => id);
}

test("removePlants() removes the plants of ids, once each, and fails if one has none", async ({ directory, store: path }) => {
  const store = await makeThree(path);
  for (
    const [ids, status, stderr, left] of [
      [["1", "1", "-0"], 1, "id 0: no such plant\n1 plant removed", [2n, 3n]],
      [["3", "2"], 0, "2 plants removed", []],
    ] as const
  ) {
    const printed = await capture(() => removePlants(store, ids));
    assert.deepEqual(printed, { result: status, stdout: "", stderr });
    assert.deepEqual(directory.names(), ["plants.db"]);
    assert.deepEqual(await idsOf(path), left);
  }
});

test("removePlants() names a plant that cannot be read, and removes the others", async ({ store: path }) => {
  const store = await makeThree(path);
  const first = "(SELECT min(k) FROM kv)";
  execute(path, `UPDATE kv SET v_encoding = 9 WHERE k = ${first}`);
  const remove = () => removePlants(store, ["1", "2"]);
  const { result, stderr } = await capture(remove);
  assert.equal(result, 1);
  assert.equal(
    stderr,
    "id 1: cannot be read: a newer Deno stored plants in it, or they are " +
      "damaged\n1 plant removed",
  );
});

/** Replaces what the removal of an id does, except for the plant 1. */
function failing(error: StoreError): Disposable {
  const { remove } = KvStore.prototype;
  return replaced(KvStore.prototype, "remove", function (this: KvStore, id) {
    return id === 1n ? remove.call(this, id) : Promise.reject(error);
  });
}

for (
  const [what, error, mayBeRemoved] of [
    ["the database is corrupt", new StoreError("corrupt"), false],
    ["no answer arrives in time", noAnswer(COMMIT_MS_MAX), true],
    ["the disk fails", new StoreError("other"), true],
  ] as const
) {
  const says = mayBeRemoved ? ", and says that it may be removed" : "";
  test(`removePlants() ends with the plant during whose removal ${what}${says}`, async ({ store: path }) => {
    const store = await makeThree(path);
    using _ = failing(error);
    const { result, stderr } = await capture(() =>
      removePlants(store, ["1", "2", "3"]).catch((error) => error.message)
    );
    assert.equal(
      stderr,
      mayBeRemoved
        ? "id 2: the plant may have been removed\n1 plant removed"
        : "1 plant removed",
    );
    const failure = `cannot remove the plant 2 from ${path}: ${error.message}`;
    assert.ok(result.startsWith(failure), result);
    assert.deepEqual(await idsOf(path), [2n, 3n]);
  });
}

test("removePlants() removes nothing if an id is invalid, or the store is missing", async ({ directory, store: path }) => {
  const store = await makeThree(path);
  await assert.rejects(removePlants(store, ["1", "one"]), {
    name: "OperatorError",
    message: /^expected an id .*, got "one"$/,
  });
  assert.deepEqual(await idsOf(path), [1n, 2n, 3n]);
  Deno.removeSync(path);
  await assert.rejects(removePlants(store, ["1"]), {
    name: "OperatorError",
    message:
      `cannot remove plants from ${path}: no such file: check the path in --kv, and what is there`,
  });
  assert.deepEqual(directory.names(), []);
});

test("removePlants() retries while another process holds the lock, and the store is open elsewhere", async ({ store: path }) => {
  const store = await makeThree(path);
  const open = await openStore(store);
  let locks = 0;
  using once = replaced(KvStore.prototype, "remove", () => {
    once[Symbol.dispose]();
    locks++;
    return Promise.reject(new StoreError("locked"));
  });
  const { result } = await capture(() => removePlants(store, ["1"]));
  assert.deepEqual([result, locks], [0, 1]);
  assert.equal((await open.read([1n])).size, 0);
  open.close();
});
