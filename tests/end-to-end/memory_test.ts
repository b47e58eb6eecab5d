/** Memory is bounded in bytes, not only in the number of requests. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { BODIES_HELD_BYTES_MAX, BODY_BYTES_MAX } from "../../src/limits.ts";
import { Http2Clients } from "../support/http2_clients.ts";
import {
  eventually,
  inParallel,
  isStored,
  Ledger,
  metricOf,
  peakResidentBytes,
  PLANT,
  RECOVERY_MS_MAX,
  type Reply,
  Tally,
  toBody,
} from "../support/load.ts";
import { Program } from "../support/program.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { request, Wire } from "../support/wire.ts";

const QUEUE_FULL = API_ERRORS.queueFull.error;
const STORE_FAILED = API_ERRORS.storeFailed.error;
const BODY_TIMED_OUT = API_ERRORS.bodyTimedOut.error;

const MIB = 2 ** 20;

/**
 * Most memory that the service may need beside 64 MiB of bodies: each is in
 * memory as received, as text, in a commit and as garbage, and the runtime
 * takes up to 100 KiB a connection. Without a bound it is 650 to 1,200 MiB.
 */
const GROWTH_BYTES_MAX = 512 * MIB;

const CONNECTIONS = 4_000;

/** Creates of the largest size: 320 MB of bodies. */
const CREATES = 10_000;

const HAS_OLD_CLIENT = /^2\.[6-8]\./.test(Deno.version.deno);

/** Reads the reply to a create. */
async function replyOn(wire: Wire): Promise<Reply> {
  const reply = await wire.reply();
  assert.ok(reply !== undefined, "closed without a reply");
  const { status, headers, text } = reply;
  const error = Number(/"error":(\d+)/.exec(text)?.[1] ?? status);
  const retryAfter = headers.get("retry-after");
  return { status, error, ...(retryAfter !== null && { retryAfter }) };
}

/** Asserts how much the memory has grown, and prints it. */
async function assertBounded(
  program: Program,
  beforeBytes: number,
  what: string,
): Promise<void> {
  const peakBytes = await peakResidentBytes(program);
  const [before, peak] = [beforeBytes, peakBytes].map((bytes) =>
    (bytes / MIB).toFixed()
  );
  console.log(`${what}: memory from ${before} to at most ${peak} MiB`);
  assert.ok(peakBytes - beforeBytes < GROWTH_BYTES_MAX, `${peak} MiB`);
}

Deno.test({
  name:
    "creates of the largest size that wait for the store are bounded in bytes, and the others are refused with 503",
  // The HTTP/2 client of Deno 2.6 loses requests that are answered early.
  ignore: HAS_OLD_CLIENT,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path]);
    assert.ok(isStored(await ledger.send(program, { id: 0n, plant: PLANT })));
    const beforeBytes = await peakResidentBytes(program);
    const heldBytes = () => metricOf(program, "plant_store_bodies_held_bytes");
    const waiting = () => metricOf(program, "plant_store_creates_waiting");

    const room = BODY_BYTES_MAX -
      toBody({ id: BigInt(CREATES), plant: { name: "" } }).length;
    const plant = { name: "x".repeat(room) };
    const ids = Array.from({ length: CREATES }, (_, i) => BigInt(i + 1));
    const tally = new Tally();
    let heldMax = 0;
    {
      using clients = new Http2Clients(program.origin, CREATES);
      using lock = new StoreLock(path);
      const replies = Promise.all(ids.map(async (id) => {
        const reply = await ledger.record(
          { id, plant },
          (newPlant) => clients.send(newPlant),
        );
        tally.add(reply);
        return reply;
      }));
      await eventually(
        (arrived) => arrived >= CREATES,
        async () => {
          heldMax = Math.max(heldMax, await heldBytes());
          return await waiting() + tally.of(QUEUE_FULL) +
            tally.of(STORE_FAILED);
        },
        { withinMs: 20 * RECOVERY_MS_MAX },
      );
      lock[Symbol.dispose]();
      for (const { status, retryAfter } of await replies) {
        assert.ok(status === 200 || retryAfter !== undefined, `${status}`);
      }
    }
    assert.ok(heldMax <= BODIES_HELD_BYTES_MAX, `${heldMax} bytes held`);
    // On a busy machine some creates reach their deadline.
    const answered = [200, QUEUE_FULL, STORE_FAILED];
    assert.equal(
      answered.reduce((sum, name) => sum + tally.of(name), 0),
      CREATES,
      JSON.stringify(tally.counts),
    );
    await assertBounded(program, beforeBytes, JSON.stringify(tally.counts));

    assert.equal(await heldBytes(), 0);
    assert.ok(isStored(await ledger.send(program, { id: -1n, plant: PLANT })));
    assert.equal((await program.stop()).status, 0);
    await ledger.assertFile(path);
  },
});

Deno.test("bodies that are still arriving are bounded in bytes, and the others are refused with 503", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  assert.ok(isStored(await ledger.send(program, { id: 0n, plant: PLANT })));
  const beforeBytes = await peakResidentBytes(program);
  const heldBytes = () => metricOf(program, "plant_store_bodies_held_bytes");

  const prefix = '{"id":1,"name":"';
  const name = "x".repeat(BODY_BYTES_MAX - prefix.length - 2);
  const bytes = request(`${prefix}${name}"}`);
  const held = BODIES_HELD_BYTES_MAX / BODY_BYTES_MAX;
  const tally = new Tally();
  const wires: Wire[] = [];
  try {
    await inParallel(Array.from({ length: CONNECTIONS }), async () => {
      const wire = await Wire.connect(program.port);
      wires.push(wire);
      assert.ok(await wire.send(bytes.subarray(0, -1)));
    });
    const replies = wires.map(async (wire) => tally.add(await replyOn(wire)));
    assert.ok(await heldBytes() <= BODIES_HELD_BYTES_MAX);
    await Promise.all(replies);
  } finally {
    for (const wire of wires) wire[Symbol.dispose]();
  }
  const counts = JSON.stringify(tally.counts);
  const timedOut = tally.of(BODY_TIMED_OUT);
  assert.equal(timedOut + tally.of(QUEUE_FULL), CONNECTIONS, counts);
  // More, if the first ones time out before the last ones arrive.
  assert.ok(timedOut >= held, counts);
  await assertBounded(program, beforeBytes, counts);

  assert.equal(await heldBytes(), 0);
  assert.ok(isStored(await ledger.send(program, { id: 2n, plant: PLANT })));
  assert.equal((await program.stop()).status, 0);
  assert.equal(await ledger.assertFile(path), 2);
});
