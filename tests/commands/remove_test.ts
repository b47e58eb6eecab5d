import assert from "node:assert/strict";
import { removePlants } from "../../src/commands/remove.ts";
import type { StoreSetting } from "../../src/config/settings.ts";
import { DatabaseError } from "../../src/store/files/database_error.ts";
import { KvStore } from "../../src/store/kv_store.ts";
import { openStore } from "../../src/store/open.ts";
import { capture } from "../support/console.ts";
import { execute } from "../support/damage.ts";
import { entriesOf } from "../support/entries.ts";
import { newPlants } from "../support/load.ts";
import { commit } from "../support/stores.ts";
import { test } from "../support/tests.ts";

/** Creates a store with the plants 1 to 3, and returns its setting. */
async function makeStore(path: string): Promise<StoreSetting> {
  const store = await openStore({ kind: "file", path });
  await commit(store, newPlants([1n, 2n, 3n]));
  store.close();
  return { kind: "file", path, setting: "--kv" };
}

/** Returns the ids of a store. */
async function idsOf(path: string): Promise<unknown[]> {
  using kv = await Deno.openKv(path);
  return (await entriesOf(kv)).map(([[, id]]) => id);
}

test("removePlants() removes the plants of ids, once each, and fails if one has none", async ({ directory, store: path }) => {
  const store = await makeStore(path);
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
  const store = await makeStore(path);
  execute(
    path,
    "UPDATE kv SET v_encoding = 9 WHERE k = (SELECT min(k) FROM kv)",
  );
  const { result, stderr } = await capture(() =>
    removePlants(store, ["1", "2"])
  );
  assert.equal(result, 1);
  assert.equal(
    stderr,
    "id 1: cannot be read: a newer Deno stored plants in it, or they are " +
      "damaged\n1 plant removed",
  );
});

test("removePlants() ends when the database is corrupt, which concerns every plant", async ({ store: path }) => {
  const store = await makeStore(path);
  const { prototype } = KvStore;
  const { remove } = prototype;
  prototype.remove = function (id) {
    if (id === 1n) return remove.call(this, id);
    return Promise.reject(new DatabaseError("corrupt"));
  };
  try {
    await capture(() =>
      assert.rejects(removePlants(store, ["1", "2", "3"]), {
        name: "OperatorError",
        message: /^cannot remove the plant 2 from .*: the database is corrupt/,
      })
    );
  } finally {
    prototype.remove = remove;
  }
  assert.deepEqual(await idsOf(path), [2n, 3n]);
});

test("removePlants() removes nothing if an id is invalid, or the store is missing", async ({ directory, store: path }) => {
  const store = await makeStore(path);
  await assert.rejects(removePlants(store, ["1", "one"]), {
    name: "OperatorError",
    message: /^expected an id .*, got "one"$/,
  });
  assert.deepEqual(await idsOf(path), [1n, 2n, 3n]);
  Deno.removeSync(path);
  await assert.rejects(removePlants(store, ["1"]), {
    name: "OperatorError",
    message:
      `cannot remove plants from ${path}: no such file: name the store with --kv`,
  });
  assert.deepEqual(directory.names(), []);
});

test("removePlants() retries while another process holds the lock, and the store is open elsewhere", async ({ store: path }) => {
  const store = await makeStore(path);
  const open = await openStore(store);
  const { prototype } = KvStore;
  const { remove } = prototype;
  prototype.remove = () => {
    prototype.remove = remove;
    return Promise.reject(new DatabaseError("locked"));
  };
  const { result } = await capture(() => removePlants(store, ["1"]));
  assert.equal(prototype.remove, remove);
  assert.equal(result, 0);
  assert.equal((await open.read([1n])).size, 0);
  open.close();
});
