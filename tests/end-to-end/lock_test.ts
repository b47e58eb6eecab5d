/** Another process that locks the database file. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import {
  eventually,
  isStored,
  occurrences,
  PLANT,
  range,
} from "../support/load.ts";
import { assertSucceeded } from "../support/program.ts";
import { StoreLock } from "../support/temporary.ts";
import { test } from "../support/tests.ts";

test("a lock of another process fails creates at their deadline, delays later ones, and loses none", async ({ store, start, ledger }) => {
  await using program = await start();
  const create = (id: bigint) => ledger.send(program, { id, plant: PLANT });
  let waiting: Promise<unknown>;
  {
    using _lock = new StoreLock(store);
    const failing = await Promise.all(range(1n, 50).map(create));
    for (const { error } of failing) {
      assert.equal(error, API_ERRORS.storeFailed.error);
    }
    waiting = Promise.all(
      range(101n, 50).map((id) => eventually(isStored, () => create(id))),
    );
    await eventually(
      (count) => count > 0,
      () => program.metric("plant_store_creates_waiting"),
    );
  }
  await waiting;
  await ledger.settle(program);
  // The sweep reports the recovery, if no commit has done so.
  await program.printed(/the store has recovered/);
  const { stderr } = program;
  const failures = occurrences(stderr, /the store fails: .* locked it/g);
  assert.equal(failures, 1, stderr);
  assert.equal(occurrences(stderr, /the store has recovered/g), 1, stderr);
  assertSucceeded(await program.stop());
  assert.equal(await ledger.assertFile(store), 100);
});
