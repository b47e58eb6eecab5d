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
import { StoreLock } from "../support/temporary.ts";
import { test, TestPlace } from "../support/tests.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;

test("a lock of another process fails creates at their deadline, delays later ones, and loses none", async () => {
  await Promise.all([testLock("IMMEDIATE"), testLock("EXCLUSIVE")]);
});

/** Holds a lock of some kind while creates arrive. */
async function testLock(kind: "IMMEDIATE" | "EXCLUSIVE"): Promise<void> {
  using place = new TestPlace();
  const { store, ledger } = place;
  await using program = await place.start();
  assert.ok(isStored(await ledger.send(program, { id: 0n, plant: PLANT })));
  const ids = range(1n, 50);
  const create = (id: bigint) => ledger.send(program, { id, plant: PLANT });

  {
    using lock = new StoreLock(store, kind);
    const failing = await Promise.all(ids.map(create));
    for (const { status } of failing) assert.equal(status, 503);
    assert.ok(failing.some(({ error }) => error === STORE_FAILED));

    const waiting = ids.map((id) =>
      eventually(isStored, () => create(id + 100n))
    );
    await eventually(
      (count) => count > 0,
      () => program.metric("plant_store_creates_waiting"),
    );
    lock[Symbol.dispose]();
    await Promise.all(waiting);
  }

  await ledger.settle(program);
  // The sweep reports the recovery, if no commit has done so.
  await program.printed(/the store has recovered/);
  const { stderr } = program;
  assert.equal(occurrences(stderr, /the store fails/g), 1, stderr);
  assert.equal(occurrences(stderr, /the store has recovered/g), 1, stderr);
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(store);
}
