import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { inParallel, send } from "../support/load.ts";
import { assertOneLine, type Ended, runProgram } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { test } from "../support/tests.ts";
import {
  drawId,
  drawLines,
  exportLines,
  storeLines,
  toLine,
} from "../support/transfer.ts";

/** Exports plants of a store. */
function runExport(store: string, ...args: string[]): Promise<Ended> {
  return runProgram(["export", "--kv", store, ...args]);
}

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
    server.data = () => new Promise(() => {});
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

/** What to export, the plants that are written, and the ids that are absent. */
const SELECTIONS: readonly [
  args: readonly string[],
  plants: readonly number[],
  absent: readonly string[],
][] = [
  [["--after", "3"], [7, 8, 9], []],
  [["--after=-1"], [3, 4, 5, 6, 7, 8, 9], []],
  [["1"], [4], []],
  [["-9223372036854775808", "9223372036854775807"], [0, 9], []],
  [["9007199254740993", "9007199254740992"], [8], ["9007199254740992"]],
  [["3", "-2", "3", "03", "-2"], [6, 1], []],
  [["-2", "-1", "0", "1", "2", "3", "4", "5"], [1, 2, 3, 4, 5, 6, 7], ["5"]],
  [["77", "-77", "77"], [], ["77", "-77"]],
];

test("export writes the plants of ids once, in the order of the ids, and reports absent ids; or the plants above an id", async ({ store }) => {
  await storeLines(store, EDGES);
  for (const [args, plants, absent] of SELECTIONS) {
    const ended = await runExport(store, ...args);
    const lines = plants.map((index) => `${EDGES[index]}\n`);
    assert.equal(ended.stdout, lines.join(""), args.join());
    const messages = absent.map((id) => `id ${id}: no such plant\n`);
    const counts = `${plants.length} exported, ${absent.length} skipped\n`;
    const isComplete = absent.length === 0;
    assert.equal(ended.stderr, messages.join("") + (isComplete ? "" : counts));
    assert.equal(ended.status, isComplete ? 0 : 1);
  }
});
