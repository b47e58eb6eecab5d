/** How the limits relate to each other and to those of Deno KV. */
import assert from "node:assert/strict";
import { serialize } from "node:v8";
import {
  BODIES_HELD_BYTES_MAX,
  BODY_BYTES_MAX,
  BODY_DISCARD_BYTES_MAX,
  BODY_MS_MAX,
  CHECK_MS,
  COMMIT_BYTES_MAX,
  COMMIT_MS_MAX,
  COMMIT_PLANTS_MAX_FILE,
  COMMIT_PLANTS_MAX_SERVER,
  COMMITS_IN_FLIGHT_MAX_FILE,
  COMMITS_IN_FLIGHT_MAX_SERVER,
  CREATES_WAITING_MAX,
  DRAIN_MS_MAX,
  FILE_CHECK_MS_MAX,
  HEALTHCHECK_MS_MAX,
  ID_MAX,
  ID_MIN,
  IMPORT_CHARS_WAITING_MAX,
  IMPORT_CREATES_WAITING_MAX,
  KV_VALUE_BYTES_MAX,
  KV_WRITE_BYTES_MAX,
  LIST_CHARS,
  LIST_KEYS_MAX,
  LIST_KEYS_MIN,
  LOCK_RETRY_MS_MAX,
  PROBE_MS,
  QUEUE_MS_MAX,
  QUOTE_CHARS_MAX,
  READ_KEYS_MAX,
  RECENT_CHARS_MAX,
  RECENT_PLANTS_MAX,
  RECOVERY_MS_MIN,
  REPLIES_MS_MAX,
  STORE_OPEN_MS_MAX,
  TOKEN_FILE_BYTES_MAX,
} from "../src/limits.ts";
import type { NewPlant } from "../src/plant/plant.ts";
import { commitBytes } from "../src/store/committer.ts";
import { acceptNewPlant } from "./support/new_plant.ts";

const encoder = new TextEncoder();

/** Bytes of an ordinary body. */
const ORDINARY_BODY_BYTES = 60;

/** Longest pause of a healthy disk. */
const DISK_PAUSE_MS = 300;

/** Maximum checks in one commit that a KV Connect server accepts. */
const SERVER_CHECKS_MAX = 10;

const FULL_COMMITS_PLANTS_MAX = Math.max(
  COMMIT_PLANTS_MAX_FILE * COMMITS_IN_FLIGHT_MAX_FILE,
  COMMIT_PLANTS_MAX_SERVER * COMMITS_IN_FLIGHT_MAX_SERVER,
);

/** Returns plants of the largest body, of one, two and three bytes a character. */
function largestPlants(): NewPlant[] {
  const shapes = [
    (name: string) => `{"id":0,"name":"${name}"}`,
    (name: string) => `{"id":0,"name":"","tag":"${name}"}`,
    (name: string) => `{"id":0,"name":"観","tag":"${name}"}`,
  ];
  // V8 stores all characters with two bytes if one of them needs two.
  const fills = [["", "x"], ["", "é"], ["", "観"], ["観", "x"], [
    "é",
    "x",
  ]] as const;
  return shapes.flatMap((shape) =>
    fills.map(([start, letter]) => {
      const length = encoder.encode(shape(start)).length;
      const letterBytes = encoder.encode(letter).length;
      const count = Math.floor((BODY_BYTES_MAX - length) / letterBytes);
      return acceptNewPlant(shape(start + letter.repeat(count)));
    })
  );
}

async function withMemoryKv(
  test: (kv: Deno.Kv) => Promise<void>,
): Promise<void> {
  const kv = await Deno.openKv(":memory:");
  try {
    await test(kv);
  } finally {
    kv.close();
  }
}

/** Commits plants as the store does. */
function commit(
  kv: Deno.Kv,
  plants: readonly NewPlant[],
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  const operation = kv.atomic();
  for (const { id, plant } of plants) {
    const key = ["plants", id];
    operation.check({ key, versionstamp: null }).set(key, plant);
  }
  return operation.commit();
}

// The largest plants.

Deno.test("a plant of the largest body fits one value of Deno KV", () => {
  for (const { plant } of largestPlants()) {
    assert.ok(serialize(plant).length <= KV_VALUE_BYTES_MAX);
  }
});

Deno.test("a body of twice the size would not fit one value of Deno KV", () => {
  const name = "é".repeat(BODY_BYTES_MAX) + "観";
  assert.ok(serialize({ name }).length > KV_VALUE_BYTES_MAX);
});

Deno.test("commitBytes() is at least the size of the value", () => {
  const plants = [...largestPlants().map(({ plant }) => plant), { name: "" }];
  for (const plant of plants) {
    assert.ok(serialize(plant).length <= commitBytes(plant));
  }
});

Deno.test("a plant of the largest body fits one commit", () => {
  for (const { plant } of largestPlants()) {
    assert.ok(commitBytes(plant) <= COMMIT_BYTES_MAX);
  }
});

Deno.test("Deno KV stores a plant of the largest body", () =>
  withMemoryKv(async (kv) => {
    for (const [i, { plant }] of largestPlants().entries()) {
      const id = ID_MIN + BigInt(i);
      assert.ok((await commit(kv, [{ id, plant }])).ok);
      assert.deepEqual((await kv.get(["plants", id])).value, plant);
    }
  }));

// The limits of Deno KV.

Deno.test("a commit fits one write of Deno KV in bytes", () => {
  assert.ok(COMMIT_BYTES_MAX <= KV_WRITE_BYTES_MAX);
});

Deno.test("a commit to a server needs no more checks than a KV Connect server accepts", () => {
  assert.ok(COMMIT_PLANTS_MAX_SERVER <= SERVER_CHECKS_MAX);
});

Deno.test("Deno KV accepts a commit of COMMIT_PLANTS_MAX_FILE plants and COMMIT_BYTES_MAX bytes", () =>
  withMemoryKv(async (kv) => {
    const bytes = COMMIT_BYTES_MAX / COMMIT_PLANTS_MAX_FILE;
    const overhead = commitBytes({ name: "" });
    const name = "観".repeat(Math.floor((bytes - overhead) / 2));
    const plants = Array.from(
      { length: COMMIT_PLANTS_MAX_FILE },
      (_, i) => ({ id: ID_MIN + BigInt(i), plant: { name } }),
    );
    assert.ok((await commit(kv, plants)).ok);
  }));

Deno.test("Deno KV accepts a commit of the largest plants up to COMMIT_BYTES_MAX", () =>
  withMemoryKv(async (kv) => {
    const [largest] = largestPlants()
      .toSorted((a, b) => commitBytes(b.plant) - commitBytes(a.plant));
    assert.ok(largest !== undefined);
    const { plant } = largest;
    const plants = Array.from(
      { length: Math.floor(COMMIT_BYTES_MAX / commitBytes(plant)) },
      (_, i) => ({ id: ID_MIN + BigInt(i), plant }),
    );
    assert.ok((await commit(kv, plants)).ok);
  }));

Deno.test("Deno KV refuses one plant more than COMMIT_PLANTS_MAX_FILE", () =>
  withMemoryKv(async (kv) => {
    const plants = Array.from(
      { length: COMMIT_PLANTS_MAX_FILE + 1 },
      (_, i) => ({ id: BigInt(i), plant: { name: "" } }),
    );
    await assert.rejects(commit(kv, plants), /Too many checks/);
  }));

Deno.test("Deno KV reads READ_KEYS_MAX keys at one time, and not one more", () =>
  withMemoryKv(async (kv) => {
    const read = (count: number) =>
      kv.getMany(Array.from({ length: count }, (_, i) => ["plants", i]));
    await read(READ_KEYS_MAX);
    await assert.rejects(read(READ_KEYS_MAX + 1), /Too many ranges/);
  }));

Deno.test("Deno KV lists LIST_KEYS_MAX keys in one page, and not one more", () =>
  withMemoryKv(async (kv) => {
    const list = (batchSize: number) =>
      Array.fromAsync(kv.list({ prefix: ["plants"] }, { batchSize }));
    await list(LIST_KEYS_MAX);
    await assert.rejects(list(LIST_KEYS_MAX + 1), /Too many entries/);
  }));

// Requests.

Deno.test("ids are int64", () => {
  assert.equal(ID_MIN, -9223372036854775808n);
  assert.equal(ID_MAX, 9223372036854775807n);
});

Deno.test("a message quotes every id in full", () => {
  assert.ok(String(ID_MIN).length <= QUOTE_CHARS_MAX);
});

Deno.test("a slow modem, at 28,800 bit/s, sends the largest body in time", () => {
  assert.ok(BODY_BYTES_MAX * 8 / 28_800 <= BODY_MS_MAX / 1000);
});

Deno.test("more of a refused body is discarded than the largest body has", () => {
  assert.ok(BODY_DISCARD_BYTES_MAX > BODY_BYTES_MAX);
});

Deno.test("the token file has room for thousands of tokens of 256 characters", () => {
  assert.ok(TOKEN_FILE_BYTES_MAX / 256 >= 2000);
});

// Queues.

Deno.test("ordinary creates reach CREATES_WAITING_MAX first, the largest BODIES_HELD_BYTES_MAX", () => {
  assert.ok(CREATES_WAITING_MAX * ORDINARY_BODY_BYTES < BODIES_HELD_BYTES_MAX);
  assert.ok(CREATES_WAITING_MAX * BODY_BYTES_MAX > BODIES_HELD_BYTES_MAX);
});

Deno.test("the creates that may wait fill every commit in flight", () => {
  assert.ok(CREATES_WAITING_MAX >= FULL_COMMITS_PLANTS_MAX);
});

Deno.test("at least one commit in flight is not reserved for a full batch", () => {
  assert.ok(COMMITS_IN_FLIGHT_MAX_FILE >= 2);
  assert.ok(COMMITS_IN_FLIGHT_MAX_SERVER >= 2);
});

Deno.test("an import has fewer waiting creates than CREATES_WAITING_MAX", () => {
  assert.ok(IMPORT_CREATES_WAITING_MAX < CREATES_WAITING_MAX);
});

Deno.test("half of the waiting creates of an import fill every commit in flight", () => {
  assert.ok(IMPORT_CREATES_WAITING_MAX / 2 >= FULL_COMMITS_PLANTS_MAX);
});

Deno.test("half of the waiting text of an import fills a commit", () => {
  assert.ok(IMPORT_CHARS_WAITING_MAX / 2 >= COMMIT_BYTES_MAX);
});

Deno.test("an import holds fewer characters than the service holds bytes of bodies", () => {
  assert.ok(IMPORT_CHARS_WAITING_MAX < BODIES_HELD_BYTES_MAX);
});

// Recent plants and listings.

Deno.test("the number of recent plants is a power of 2", () => {
  assert.ok(Number.isInteger(Math.log2(RECENT_PLANTS_MAX)));
});

Deno.test("the recent plants have room for every create that may wait", () => {
  assert.ok(RECENT_PLANTS_MAX >= CREATES_WAITING_MAX);
});

Deno.test("the length of a recent name, plus 1, fits one byte", () => {
  assert.ok(RECENT_CHARS_MAX + 1 <= 0xff);
});

Deno.test("the recent plants take 9 MiB", () => {
  // An id, two lengths, and the text at two bytes a character.
  const plantBytes = 8 + 2 + 2 * RECENT_CHARS_MAX;
  const mebibytes = RECENT_PLANTS_MAX * plantBytes / 2 ** 20;
  assert.equal(Math.round(mebibytes), 9);
});

Deno.test("a page of a listing has LIST_KEYS_MIN of the largest plants", () => {
  assert.ok(LIST_CHARS / BODY_BYTES_MAX <= LIST_KEYS_MIN);
});

Deno.test("a page of a listing has LIST_KEYS_MAX ordinary plants", () => {
  assert.ok(LIST_CHARS / ORDINARY_BODY_BYTES >= LIST_KEYS_MAX);
});

// Times.

Deno.test("the drain outlasts a commit that starts with it, and a sweep", () => {
  assert.ok(COMMIT_MS_MAX + CHECK_MS <= DRAIN_MS_MAX);
});

Deno.test("the last replies have a fraction of the time of the drain", () => {
  assert.ok(REPLIES_MS_MAX * 5 <= DRAIN_MS_MAX);
});

Deno.test("a pause of a healthy disk does not cause an overload", () => {
  assert.ok(QUEUE_MS_MAX > DISK_PAUSE_MS);
});

Deno.test("a queued create has most of its time left for the commit", () => {
  assert.ok(QUEUE_MS_MAX * 5 <= COMMIT_MS_MAX);
});

Deno.test("a sweep is late by a twentieth of a deadline at most", () => {
  for (const deadlineMs of [BODY_MS_MAX, COMMIT_MS_MAX]) {
    assert.ok(CHECK_MS * 20 <= deadlineMs);
  }
});

Deno.test("the sweep runs at least as often as a probe may", () => {
  assert.ok(CHECK_MS <= PROBE_MS);
});

Deno.test("a file is checked more often for replays than by the sweep", () => {
  assert.ok(FILE_CHECK_MS_MAX < CHECK_MS);
});

Deno.test("a write to a locked store is retried many times before a create or a probe fails", () => {
  assert.ok(LOCK_RETRY_MS_MAX * 10 <= PROBE_MS);
  assert.ok(LOCK_RETRY_MS_MAX * 10 <= COMMIT_MS_MAX);
});

Deno.test("a probe fails before a create does", () => {
  assert.ok(PROBE_MS < COMMIT_MS_MAX);
});

Deno.test("a store has more time to open than a probe has", () => {
  assert.ok(PROBE_MS < STORE_OPEN_MS_MAX);
});

Deno.test("a failing store is probed more than once before it counts as recovered", () => {
  assert.ok(RECOVERY_MS_MIN > PROBE_MS);
});

Deno.test("the healthcheck outlasts a probe", () => {
  assert.ok(HEALTHCHECK_MS_MAX > PROBE_MS);
});

Deno.test("Retry-After and the messages are whole seconds", () => {
  for (const ms of [COMMIT_MS_MAX, DRAIN_MS_MAX, BODY_MS_MAX]) {
    assert.equal(ms % 1000, 0);
  }
});
