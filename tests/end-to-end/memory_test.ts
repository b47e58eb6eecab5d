/**
 * Memory under more load than the service accepts. What is measured depends on
 * the machine, so only the gate runs these tests, without others beside them.
 */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import {
  BODIES_RESERVED_BYTES_MAX,
  BODY_BYTES_MAX,
  CREATES_WAITING_MAX,
} from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import {
  eventually,
  inParallel,
  isStored,
  PLANT,
  residentBytes,
  Tally,
  toBody,
} from "../support/load.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { StoreLock } from "../support/temporary.ts";
import { type TestPlace, testsIf } from "../support/tests.ts";
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

/** Connections whose bodies do not arrive completely. */
const CONNECTIONS = 4_000;

/** More creates than may wait, and 340 MB if all have the largest size. */
const CREATES = CREATES_WAITING_MAX + 500;

/** Maximum concurrent requests that the service accepts on one connection. */
const STREAMS_MAX = 200;

/** Floods, to compare the memory of the second half with that of the first. */
const FLOODS = 4;

/** A running service, its store, and what was sent to it. */
interface Service extends Pick<TestPlace, "store" | "ledger"> {
  readonly program: Program;
}

const inGate = testsIf(Deno.env.has("GATE"));

/** Registers a test with a running service, which must have stored one plant. */
function testService(
  name: string,
  run: (service: Service) => Promise<void>,
): void {
  inGate.test(name, async ({ store, ledger, start }) => {
    await using program = await start();
    const isAlive = async (id: bigint) =>
      assert.ok(isStored(await ledger.send(program, { id, plant: PLANT })));
    await isAlive(0n);
    await run({ store, ledger, program });
    await isAlive(-1n);
    assert.equal(await heldBytes(program), 0);
    assert.doesNotMatch(program.stderr, /internal error/);
    assertSucceeded(await program.stop());
    await ledger.assertFile(store);
  });
}

function heldBytes(program: Program): Promise<number> {
  return program.metric("plant_store_bodies_held_bytes");
}

/**
 * Sends creates at the same time while the store is locked; when all of them
 * wait or are refused, unlocks it and waits for the other replies.
 * @param observe called while they arrive
 */
async function flood(
  { store, ledger, program }: Service,
  [firstId, plant]: [bigint, Plant],
  observe: (waiting: number) => Promise<void>,
): Promise<void> {
  using clients = new DisposableStack();
  const connections = Array.from(
    { length: Math.ceil(CREATES / STREAMS_MAX) },
    () => clients.use(Deno.createHttpClient({ http1: false, http2: true })),
  );
  using lock = new StoreLock(store);
  const tally = new Tally();
  const ids = Array.from({ length: CREATES }, (_, i) => firstId + BigInt(i));
  const replies = Promise.all(ids.map(async (id, i) => {
    const client = connections[i % connections.length];
    assert.ok(client !== undefined);
    const reply = await ledger.send(program, { id, plant }, { client });
    tally.add(reply);
    assert.ok(isStored(reply) || reply.status === 503);
  }));
  await eventually((arrived) => arrived === CREATES, async () => {
    const waiting = await program.metric("plant_store_creates_waiting");
    await observe(waiting);
    return waiting + tally.of(QUEUE_FULL) + tally.of(STORE_FAILED);
  });
  lock[Symbol.dispose]();
  await replies;
  const answered = [200, QUEUE_FULL, STORE_FAILED].map((it) => tally.of(it));
  const sum = answered.reduce((sum, count) => sum + count);
  assert.equal(sum, CREATES, JSON.stringify(tally.counts));
  assert.ok(tally.of(QUEUE_FULL) > 0, "none was refused");
}

/** Asserts how much the memory has grown. */
async function assertBounded(
  program: Program,
  beforeBytes: number,
): Promise<void> {
  const grownBytes = await residentBytes(program, "VmHWM") - beforeBytes;
  assert.ok(grownBytes < GROWTH_BYTES_MAX, `grew by ${grownBytes} bytes`);
}

testService(
  "creates beyond those that may wait are refused with 503, again and again, and leave nothing in memory",
  async (service) => {
    const residents: number[] = [];
    for (let number = 1; number <= FLOODS; number++) {
      let resident = 0;
      await flood(
        service,
        [BigInt(number * CREATES), PLANT],
        async (waiting) => {
          assert.ok(waiting <= CREATES_WAITING_MAX, `${waiting} waited`);
          resident = await residentBytes(service.program);
        },
      );
      residents.push(resident);
    }
    // The heap varies between two garbage collections, so peaks are compared:
    // 6 KiB that each create left behind would exceed the bound.
    const early = Math.max(...residents.slice(0, FLOODS / 2));
    const late = Math.max(...residents.slice(FLOODS / 2));
    assert.ok(late - early < 128 * MIB, `${late} bytes after ${early}`);
  },
);

testService(
  "creates of the largest size that wait for the store are bounded in bytes, and the others are refused with 503",
  async (service) => {
    const { program } = service;
    const beforeBytes = await residentBytes(program, "VmHWM");
    const empty = toBody({ id: BigInt(2 * CREATES), plant: { name: "" } });
    const plant = { name: "x".repeat(BODY_BYTES_MAX - empty.length) };
    await flood(service, [1n, plant], async () => {
      const bytes = await heldBytes(program);
      assert.ok(bytes <= BODIES_RESERVED_BYTES_MAX, `${bytes} bytes held`);
    });
    await assertBounded(program, beforeBytes);
  },
);

testService(
  "bodies that are still arriving are bounded in bytes, and the others are refused with 503",
  async ({ program }) => {
    const beforeBytes = await residentBytes(program, "VmHWM");
    const prefix = '{"id":1,"name":"';
    const name = "x".repeat(BODY_BYTES_MAX - prefix.length - 2);
    const bytes = request(`${prefix}${name}"}`).subarray(0, -1);
    const counts = new Map<string, number>();
    using wires = new DisposableStack();
    const replies: Promise<void>[] = [];
    await inParallel(Array.from({ length: CONNECTIONS }), async () => {
      const wire = wires.use(await Wire.connect(program.port));
      assert.ok(await wire.send(bytes));
      replies.push(
        wire.reply().then((reply) => {
          const error = /"error":(\d+)/.exec(reply?.text ?? "")?.[1] ?? "none";
          counts.set(error, (counts.get(error) ?? 0) + 1);
        }),
      );
    });
    assert.ok(await heldBytes(program) <= BODIES_RESERVED_BYTES_MAX);
    await Promise.all(replies);
    const timedOut = counts.get(`${BODY_TIMED_OUT}`) ?? 0;
    const refused = counts.get(`${QUEUE_FULL}`) ?? 0;
    assert.equal(timedOut + refused, CONNECTIONS, JSON.stringify([...counts]));
    // More, if the first ones time out before the last ones arrive.
    assert.ok(timedOut >= BODIES_RESERVED_BYTES_MAX / BODY_BYTES_MAX);
    await assertBounded(program, beforeBytes);
  },
);
