/** A full disk, and a damaged store. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { destroyPage, pagesOf } from "../support/accidents.ts";
import { isStored, Ledger, sendCreate } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { makeStore, range } from "../support/plants.ts";
import {
  assertRecovered,
  assertSucceeded,
  Program,
  replyStatus,
  untilReady,
} from "../support/program.ts";
import { SmallDisk, TemporaryDirectory } from "../support/temporary.ts";
import { inParallel } from "../support/waiting.ts";

/** Eight of these fill a page. */
const LARGE = { name: "x".repeat(500) };

/** A plant of three pages. */
function largePlant(id: bigint) {
  return { id, plant: { name: `${id} `.repeat(1_000) } };
}

Deno.test({
  name:
    "a full disk causes 503 and loses no acknowledged plant, and the service recovers once there is room",
  ignore: isMissing("mount"),
  async fn() {
    const ledger = new Ledger();
    using disk = new SmallDisk(24);
    const path = disk.file("plants.db");
    {
      await using program = await Program.start(path);
      await ledger.store(program, range(1n, 100).map(largePlant));

      const ballast = disk.fill("ballast");
      // Without a create: a probe notices it, unless its result is still current.
      await untilReady(program, 503);
      await program.printed(
        /error: the store fails \(disk\): .*plants\.db: .*disk is full/,
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
      const ended = await program.stop();
      assertSucceeded(ended);
      assertRecovered(ended);
    }
    assert.equal(await ledger.assertFile(path), 200);
  },
});

Deno.test("a service that meets corruption answers every create with 503 from then on, also one that was acknowledged", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await makeStore(store, range(1n, 1_000).map((id) => ({ id, plant: LARGE })));
  // In the middle of the plants: the start reads the first and the last ones.
  const pages = pagesOf(store, "kv");
  destroyPage(store, pages[Math.floor(pages.length / 2)] ?? assert.fail());
  const damaged = directory.names();
  await using program = await Program.start(store);
  const create = (id: bigint) =>
    sendCreate(program, { id, plant: { name: "Monstera" } });
  assert.ok(isStored(await create(2_000n)));
  // The other ids are taken.
  for (const id of range(1n, 1_000)) {
    if ((await create(id)).status === 503) break;
  }
  await program.printed(/error: the store fails \(corrupt\): .*corrupt/);
  for (const id of [2_000n, 2_001n]) {
    assert.equal((await create(id)).error, API_ERRORS.storeFailed.error);
  }
  await untilReady(program, 503);
  assertSucceeded(await program.stop());
  assert.deepEqual(directory.names(), damaged);
});
