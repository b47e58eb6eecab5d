import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { BODY_BYTES_MAX, ID_MAX, ID_MIN } from "../../src/limits.ts";
import { overwrite } from "../support/damage.ts";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { inParallel, send } from "../support/load.ts";
import { assertOneLine, type Ended, runProgram } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { fromSource, test } from "../support/tests.ts";
import {
  createStore,
  drawId,
  drawLines,
  exportLines,
  storeLines,
  toLine,
} from "../support/transfer.ts";

/** Exports all plants of a store, or those with these ids. */
function runExport(store: string, ...ids: string[]): Promise<Ended> {
  return runProgram(["export", "--kv", store, ...ids]);
}

// An older Deno cannot read the objects that a newer one stores.
fromSource.test("export writes plants of every size, also of other programs", async ({ store }) => {
  const plants = [
    { name: "x".repeat(BODY_BYTES_MAX) },
    // Three bytes a character in a line, and two in the store.
    { name: "竹".repeat(32_000) },
    // Six bytes a character in a line, and one in the store.
    { name: "\0".repeat(65_000), tag: "é" },
    { name: "", tag: "\x7f".repeat(65_000) },
  ];
  {
    using kv = await Deno.openKv(store);
    for (const [id, plant] of plants.entries()) {
      await kv.set(["plants", BigInt(id)], plant);
    }
  }
  const exported = await exportLines(store);
  assert.deepEqual(
    exported.map((line) => JSON.parse(line)),
    plants.map((plant, id) => ({ id, ...plant })),
  );
});

test("export names and skips keys and values that the service did not write, also if their ids are given", async ({ store }) => {
  const lines = [toLine(1n, "one"), toLine(9n, "nine", "t")];
  await storeLines(store, lines);
  const bytes = new Uint8Array(1);
  const kv = await Deno.openKv(store);
  await kv.atomic()
    .set(["plants", 2n], bytes)
    .set(["plants", 3n], new Deno.KvU64(3n))
    .set(["plants", "six"], bytes)
    .set(["plants", 7n, 8n], bytes)
    .set(["others", 1n], bytes)
    .commit();
  kv.close();
  const { status, stdout, stderr } = await runExport(store);
  assert.equal(stdout, lines.map((line) => `${line}\n`).join(""));
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "2 exported, 4 skipped",
    '[ "plants", "six" ]: not a plant of this service',
    '[ "plants", 2n ]: not a plant of this service',
    '[ "plants", 3n ]: not a plant of this service',
    '[ "plants", 7n, 8n ]: not a plant of this service',
  ]);
  assert.equal(status, 1);
  const ended = await runExport(store, "3", "1", "2");
  assert.equal(ended.stdout, `${toLine(1n, "one")}\n`);
  assert.equal(
    ended.stderr,
    "id 3: not a plant of this service\nid 2: not a plant of this service\n" +
      "1 exported, 2 skipped\n",
  );
  assert.equal(ended.status, 1);
});

// An older Deno cannot read the objects that a newer one stores.
fromSource.test("export names and skips values that are not plants", async ({ store }) => {
  await storeLines(store, [toLine(1n, "one")]);
  const kv = await Deno.openKv(store);
  await kv.atomic()
    .set(["plants", 2n], { name: 2 })
    .set(["plants", 3n], { name: "three", tag: null })
    .set(["plants", 4n], { name: "\ud800" })
    .commit();
  kv.close();
  const { status, stdout, stderr } = await runExport(store);
  assert.equal(stdout, `${toLine(1n, "one")}\n`);
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "1 exported, 3 skipped",
    '[ "plants", 2n ]: not a plant of this service',
    '[ "plants", 3n ]: not a plant of this service',
    '[ "plants", 4n ]: not a plant of this service',
  ]);
  assert.equal(status, 1);
});

test("export changes nothing in the store but the counters in its header", async ({ store }) => {
  await storeLines(store, drawLines(new Random(1), 500));
  // SQLite file format, sections 1.3.7 and 1.3.12.
  const read = () =>
    Buffer.from(Deno.readFileSync(store)).fill(0, 24, 28).fill(0, 92, 100);
  const before = read();
  await exportLines(store);
  assert.ok(read().equals(before));
});

test("export ends without a message when its reader closes the pipe", async ({ store }) => {
  const lines = drawLines(new Random(1), 5_000);
  await storeLines(store, lines);
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${lines.slice(0, 2).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

test("export of all plants, or of an id, gives up on a KV Connect server that stops responding", async () => {
  await Promise.all([[], ["1"]].map(async (ids) => {
    await using server = new FakeKvServer();
    let calls = 0;
    server.data = () => ++calls > 1 ? new Promise(() => {}) : undefined;
    assertOneLine(
      await runProgram(["export", ...ids, "--kv", server.url], { env: KV_ENV }),
      1,
      `cannot read ${server.url}/: no answer within 10 s: check its address, and ` +
        "its token in DENO_KV_ACCESS_TOKEN",
    );
  }));
});

test("export while a service creates contains every earlier plant, in order", async ({ store, start }) => {
  const random = new Random(seedOfRun());
  const lines = drawLines(random, 5_000);
  await storeLines(store, lines);
  await using program = await start();
  let isRunning = true;
  let created = 0;
  function* ids() {
    while (isRunning) yield drawId(random);
  }
  const creating = inParallel(ids(), async (id) => {
    const { status } = await send(program, { id, plant: { name: "new" } });
    // A busy machine may refuse a create.
    assert.ok(status === 200 || status === 503, `answered ${status}`);
    if (status === 200) created++;
  }, 16);
  const exports: string[][] = [];
  for (let i = 0; i < 2; i++) exports.push(await exportLines(store));
  isRunning = false;
  await creating;
  assert.ok(created > 0);
  for (const exported of exports) {
    const found = new Set(exported);
    assert.ok(lines.every((line) => found.has(line)));
    const ids = exported.map((line) => BigInt(/-?\d+/.exec(line)?.[0] ?? ""));
    assert.ok(ids.every((id, i) => i === 0 || id > (ids[i - 1] ?? 0n)));
  }
});

/** Plants at the bounds of int64, and beside each other. */
const EDGES: readonly string[] = [
  toLine(ID_MIN, "least"),
  ...[-2n, -1n, 0n, 1n, 2n, 3n, 4n].map((id) => toLine(id, `Plant ${id}`)),
  toLine(2n ** 53n + 1n, "no double"),
  toLine(ID_MAX, "greatest"),
];

/** Ids to export, the plants that are written, and the ids that are absent. */
const SELECTIONS: readonly [
  ids: readonly string[],
  plants: readonly number[],
  absent: readonly string[],
][] = [
  [["1"], [4], []],
  [["-1"], [2], []],
  [["-9223372036854775808", "9223372036854775807"], [0, 9], []],
  [["9007199254740993", "9007199254740992"], [8], ["9007199254740992"]],
  [["3", "-2", "3", "03", "-2"], [6, 1], []],
  [["-0", "0"], [3], []],
  [["-2", "-1", "0", "1", "2", "3", "4", "5"], [1, 2, 3, 4, 5, 6, 7], ["5"]],
  [["77", "-77", "77"], [], ["77", "-77"]],
];

test("export of ids writes these plants once, in their order, and reports absent ids", async ({ store }) => {
  await storeLines(store, EDGES);
  for (const [ids, plants, absent] of SELECTIONS) {
    const ended = await runExport(store, ...ids);
    const lines = plants.map((index) => `${EDGES[index]}\n`);
    assert.equal(ended.stdout, lines.join(""), ids.join());
    const messages = absent.map((id) => `id ${id}: no such plant\n`);
    const counts = `${plants.length} exported, ${absent.length} skipped\n`;
    const isComplete = absent.length === 0;
    assert.equal(ended.stderr, messages.join("") + (isComplete ? "" : counts));
    assert.equal(ended.status, isComplete ? 0 : 1);
  }
});

test("export refuses what is not an id with one line, and reads no store", async ({ directory, store }) => {
  const bad = [
    "9223372036854775808",
    "-9223372036854775809",
    "9".repeat(1_000),
    "1.0",
    "1e2",
    "0x1",
    "1n",
    " 1",
    "",
    "Monstera",
    "+1",
    "٣",
    "-1x",
  ];
  for (const id of bad) {
    const shown = `expected an id from ${ID_MIN} to ${ID_MAX}, got "${id}"`;
    assertOneLine(await runExport(store, "1", id), 2, shown);
  }
  assert.deepEqual(directory.names(), []);
});

test("an export of a damaged store ends before the damage, and one of ids names those that cannot be read", async ({ store }) => {
  const lines = await createStore(store, 1_000, "x".repeat(500));
  overwrite(store, 100 * 4_096, 4_096);
  const all = await runExport(store);
  assert.equal(all.status, 1);
  const [, last = ""] = /; the export stopped after id (\d+)\n$/
    .exec(all.stderr) ?? [];
  assert.equal(
    all.stdout,
    lines.slice(0, Number(last)).map((line) => `${line}\n`).join(""),
  );
  const damaged = Number(last) + 1;
  const some = await runExport(store, "1", `${damaged}`, "1000");
  assert.deepEqual(some, {
    status: 1,
    signal: null,
    stdout: `${lines[0]}\n${lines[999]}\n`,
    stderr:
      `id ${damaged}: cannot be read: the database is corrupt: restore a backup\n` +
      "2 exported, 1 skipped\n",
  });
});
