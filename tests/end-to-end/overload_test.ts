/** More creates than the store can take, and requests that stay incomplete. */
import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { CREATES_WAITING_MAX } from "../../src/limits.ts";
import { Http2Clients } from "../support/http2_clients.ts";
import {
  eventually,
  inParallel,
  isStored,
  Ledger,
  metricOf,
  PLANT,
  RECOVERY_MS_MAX,
  residentBytes,
  Tally,
} from "../support/load.ts";
import { Program, TOKEN } from "../support/program.ts";
import { numberFromEnv } from "../support/random.ts";
import { StoreLock, TemporaryDirectory } from "../support/temporary.ts";
import { Wire } from "../support/wire.ts";

const QUEUE_FULL = API_ERRORS.queueFull.error;
const STORE_FAILED = API_ERRORS.storeFailed.error;
const BODY_TIMED_OUT = API_ERRORS.bodyTimedOut.error;

/** More creates than may wait. */
const REQUESTS = CREATES_WAITING_MAX + 500;

/** Floods, to compare the memory of the second half with that of the first. */
const FLOODS = numberFromEnv("FLOODS", 4);

/** Many times what a flood needs, for busy machines. */
const SOON = { withinMs: 20 * RECOVERY_MS_MAX };

const INTERNAL_ERROR = /internal error/;

Deno.test("creates that would wait too long are refused with 503 and Retry-After at once, none is lost, and creates succeed afterwards", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  const { residents, failed } = await flood(program, path, ledger);
  // The heap varies between two garbage collections, so peaks are compared: 6
  // KiB that each create left behind would exceed the bound; 3 with 8 floods.
  const early = Math.max(...residents.slice(0, FLOODS / 2));
  const late = Math.max(...residents.slice(FLOODS / 2));
  assert.ok(late - early < 128 * 2 ** 20, `${late} bytes after ${early}`);
  assert.doesNotMatch(program.stderr, INTERNAL_ERROR);
  assert.equal((await program.stop()).status, 0);
  // Refused creates were not stored.
  const stored = await ledger.assertFile(path);
  assert.ok(stored <= ledger.acknowledged.size + failed, `${stored} stored`);
});

/** Sends more creates than may wait to a locked store, again and again. */
async function flood(program: Program, path: string, ledger: Ledger) {
  const create = (id: bigint) => ledger.send(program, { id, plant: PLANT });
  assert.ok(isStored(await create(0n)));
  using clients = new Http2Clients(program.origin, REQUESTS);

  const residents: number[] = [];
  let failed = 0;
  for (let number = 1; number <= FLOODS; number++) {
    const ids = Array.from(
      { length: REQUESTS },
      (_, i) => BigInt(number * 1_000_000 + i),
    );
    using lock = new StoreLock(path);
    const tally = new Tally();
    const replies = Promise.all(ids.map(async (id) => {
      const newPlant = { id, plant: PLANT };
      const reply = await ledger.record(newPlant, (it) => clients.send(it));
      tally.add(reply);
      return reply;
    }));
    // Refusals are sent while all the others wait.
    let waiting = 0;
    await eventually((count) => count === REQUESTS, async () => {
      waiting = await metricOf(program, "plant_store_creates_waiting");
      return waiting + tally.of(QUEUE_FULL) + tally.of(STORE_FAILED);
    }, SOON);
    const resident = await residentBytes(program);
    lock[Symbol.dispose]();
    for (const { error, retryAfter } of await replies) {
      if (error === QUEUE_FULL) assert.equal(retryAfter, "1");
    }
    failed += tally.of(STORE_FAILED);
    const answered = tally.of(200) + tally.of(QUEUE_FULL) +
      tally.of(STORE_FAILED);
    const counts = JSON.stringify(tally.counts);
    assert.equal(answered, REQUESTS, counts);

    // All is normal, and a refused create can be repeated.
    const refused = ids.filter((id) => !ledger.acknowledged.has(id));
    await inParallel(refused.slice(0, 100), async (id) => {
      await eventually(isStored, () => create(id), SOON);
      await eventually(isStored, () => create(-id), SOON);
    });
    assert.ok(waiting <= CREATES_WAITING_MAX, `${waiting} waited`);
    residents.push(resident);
  }
  return { residents, failed };
}

const HEAD = [
  "POST /plants HTTP/1.1",
  "Host: plants.test",
  `Authorization: Bearer ${TOKEN}`,
  "Content-Type: application/json",
].join("\r\n");

/** Opens a connection and sends a part of a request. */
async function sendPart(port: number, text: string): Promise<Wire> {
  const wire = await Wire.connect(port);
  assert.ok(await wire.send(text));
  return wire;
}

/** Returns how many requests were counted with a status. */
async function requests(program: Program, status: number) {
  const metrics = await program.metrics();
  return metrics.get(`plant_store_http_requests_total{code="${status}"}`);
}

Deno.test("creates succeed beside 2,000 incomplete requests, and bodies that do not arrive are refused with 408", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  const { port } = program;
  const halfBody = `${HEAD}\r\nContent-Length: 100\r\n\r\n{"id": 1, "na`;
  const halfChunk = `${HEAD}\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"id"`;
  const halfHead = `${HEAD}\r\nContent-Le`;
  const each = Array.from({ length: 500 }, (_, i) => i);

  using wires = new DisposableStack();
  const bodies: Wire[] = [];
  await inParallel(each, async () => {
    for (const text of [halfHead, halfHead, halfBody, halfChunk]) {
      const wire = wires.use(await sendPart(port, text));
      if (text !== halfHead) bodies.push(wire);
    }
  });
  const timedOut = Promise.all(bodies.map((wire) => wire.reply()));

  // Other clients leave in the middle of a body, while creates continue.
  const leaving = inParallel(each, async () => {
    for (const text of [halfBody, halfChunk]) {
      using _wire = await sendPart(port, text);
    }
  }, 8);
  const ids = Array.from({ length: 2_000 }, (_, i) => BigInt(i + 1));
  await inParallel(ids, async (id) => {
    assert.ok(isStored(await ledger.send(program, { id, plant: PLANT })));
  });
  await leaving;

  for (const reply of await timedOut) {
    assert.equal(reply?.status, 408);
    assert.match(reply.text, new RegExp(`"error":${BODY_TIMED_OUT}\\b`));
  }
  // Those who left are counted apart from the bad requests.
  await eventually(
    (left) => left === 2 * each.length,
    async () => await requests(program, 499),
    SOON,
  );
  assert.equal(await requests(program, 400), 0);
  const { status } = await ledger.send(program, { id: 0n, plant: PLANT });
  assert.equal(status, 200);
  assert.doesNotMatch(program.stderr, INTERNAL_ERROR);
  assert.equal((await program.stop()).status, 0);
  assert.equal(await ledger.assertFile(path), ids.length + 1);
});
