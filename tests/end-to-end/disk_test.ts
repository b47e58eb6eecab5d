/** A full disk, and a damaged store. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { overwrite, PAGE_BYTES } from "../support/damage.ts";
import { isStored, send } from "../support/ledger.ts";
import { range } from "../support/plants.ts";
import { inParallel, untilReady } from "../support/waiting.ts";
import { needs } from "../support/needs.ts";
import {
  assertSucceeded,
  occurrences,
  Program,
  replyStatus,
} from "../support/program.ts";
import { SmallDisk } from "../support/small_disk.ts";
import { test } from "../support/tests.ts";
import { createStore } from "../support/transfer.ts";

const withMount = needs("mount");

/** A plant of three pages. */
function largePlant(id: bigint) {
  return { id, plant: { name: `${id} `.repeat(1_000) } };
}

withMount.test("a full disk causes 503 for creates and GET /readyz, loses nothing acknowledged, and the service recovers once there is room, also without a create", async ({ ledger }) => {
  using disk = new SmallDisk(24);
  const path = disk.file("plants.db");
  {
    await using program = await Program.start(["--kv", path]);
    await ledger.store(program, range(1n, 100).map(largePlant));

    const ballast = disk.fill("ballast");
    // Without a create: a probe notices it, unless its result is still current.
    await untilReady(program, 503);
    await program.printed(
      /error: the store fails: .*plants\.db: .*disk is full/,
    );
    assert.equal(await program.metric("plant_store_up"), 0);
    await inParallel(range(101n, 100), async (id) => {
      const { error } = await ledger.send(program, largePlant(id));
      assert.equal(error, API_ERRORS.storeFailed.error);
    });
    // A replay needs no room, and does not count as a recovery.
    await ledger.store(program, ledger.acknowledged.values());
    assert.equal(await replyStatus(program.get("/nowhere")), 404);

    Deno.removeSync(ballast);
    await program.printed(/info: the store has recovered\n/);
    await untilReady(program, 200);
    // A create that was answered 503 can be repeated.
    await ledger.settle(program);
    const { stderr } = program;
    assert.equal(occurrences(stderr, /error: the store fails/g), 1, stderr);
    assert.equal(occurrences(stderr, /the store has recovered/g), 1, stderr);
    assertSucceeded(await program.stop());
  }
  assert.equal(await ledger.assertFile(path), 200);
});

test("a service that meets corruption answers every create with 503 from then on, also one that was acknowledged", async ({ directory, store, start }) => {
  await createStore(store, 1_000, "x".repeat(500));
  // A page with plants, which the start does not read.
  overwrite(store, 100 * PAGE_BYTES, PAGE_BYTES);
  const damaged = directory.names();
  await using program = await start();
  const create = (id: bigint) =>
    send(program, { id, plant: { name: "Monstera" } });
  assert.ok(isStored(await create(2_000n)));
  // The other ids are taken.
  for (const id of range(1n, 1_000)) {
    if ((await create(id)).status === 503) break;
  }
  await program.printed(/error: the store fails: .*corrupt/);
  for (const id of [2_000n, 2_001n]) {
    assert.equal((await create(id)).error, API_ERRORS.storeFailed.error);
  }
  await untilReady(program, 503);
  assertSucceeded(await program.stop());
  assert.deepEqual(directory.names(), damaged);
});
