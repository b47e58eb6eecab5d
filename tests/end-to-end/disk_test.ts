/** A full disk: creates fail, and nothing else does. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import {
  eventually,
  inParallel,
  isStored,
  Ledger,
  occurrences,
  PLANT,
  send,
  Tally,
} from "../support/load.ts";
import { Program, statusOf } from "../support/program.ts";
import { canMount, SmallDisk } from "../support/small_disk.ts";
import { testsWith } from "../support/tests.ts";

const STORE_FAILED = API_ERRORS.storeFailed.error;

const onSmallDisk = testsWith(() => new SmallDisk(24), canMount());

/** A plant of three pages. */
function largePlant(id: bigint) {
  return { name: `${id} `.repeat(1_000), tag: "" };
}

onSmallDisk.test("a full disk causes 503 for creates, loses nothing acknowledged, and creates succeed once there is room", async (disk) => {
  const path = disk.file("plants.db");
  const ballast = disk.file("ballast");
  Deno.writeFileSync(ballast, new Uint8Array(20_000_000));
  const ledger = new Ledger();
  {
    await using program = await Program.start(["--kv", path]);

    // Fill the disk, and continue when it is full.
    const tally = new Tally();
    let id = 0n;
    while (tally.of(STORE_FAILED) < 200 && id < 5_000n) {
      const ids = Array.from({ length: 16 }, () => ++id);
      await inParallel(ids, async (id) => {
        const plant = largePlant(id);
        tally.add(await ledger.send(program, { id, plant }));
      });
    }
    assert.ok(tally.of(200) > 0, "nothing was stored");
    assert.ok(tally.of(STORE_FAILED) >= 200, "the disk never became full");
    assert.deepEqual(Object.keys(tally.counts), ["200", String(STORE_FAILED)]);
    await program.printed(/the store fails: .*full/);

    // A replay needs no room, and does not count as a recovery.
    let isReplayed = false;
    const replaying = ledger.replay(program).finally(() => isReplayed = true);
    for (let round = 0; round < 3 || !isReplayed; round++) {
      const plant = largePlant(++id);
      const { error } = await ledger.send(program, { id, plant });
      assert.equal(error, STORE_FAILED);
    }
    await replaying;

    assert.equal(await statusOf(program.get("/nowhere")), 404);

    Deno.removeSync(ballast);
    await eventually(
      isStored,
      () => ledger.send(program, { id: ++id, plant: PLANT }),
    );
    await program.printed(/the store has recovered/);
    await ledger.replay(program);
    // A create that was answered 503 can be repeated.
    await ledger.settle(program);
    const { stderr } = program;
    assert.equal(occurrences(stderr, /error: the store fails/g), 1, stderr);
    assert.equal(occurrences(stderr, /the store has recovered/g), 1, stderr);
    assert.equal((await program.stop()).status, 0);
  }
  await ledger.assertFile(path);
});

onSmallDisk.test("a full disk that also holds the service's log does not stop the service", async (disk) => {
  const path = disk.file("plants.db");
  const log = disk.file("log");
  const plant = { name: "x".repeat(10_000) };
  const ledger = new Ledger();
  await using program = Program.spawn(
    ["--port", "0", "--kv", path],
    { shell: `exec "$0" "$@" 2>>${log}` },
  );
  program.origin = await eventually((origin) => origin !== "", async () => {
    const text = await Deno.readTextFile(log).catch(() => "");
    return /listens on (\S+)\n/.exec(text)?.[1] ?? "";
  });
  const ballast = disk.fill("ballast");
  for (let id = 1n; id <= 20n; id++) {
    const { error } = await ledger.send(program, { id, plant });
    assert.equal(error, STORE_FAILED);
  }
  assert.equal(await statusOf(program.get("/livez")), 200);
  Deno.removeSync(ballast);
  await eventually(isStored, () => send(program, { id: 1n, plant }));
  await eventually(
    (text) => text.includes("the store has recovered"),
    () => Deno.readTextFile(log),
  );
  assert.equal((await program.stop()).status, 0);
  await ledger.assertFile(path);
});
