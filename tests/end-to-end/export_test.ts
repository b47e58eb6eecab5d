import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { inParallel, send } from "../support/load.ts";
import { assertOneLine, Program, runProgram } from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  assertSameLines,
  drawId,
  drawLines,
  exportLines,
  importFile,
  toLine,
  writeLines,
} from "../support/transfer.ts";

/** Creates a store with these lines and returns its path. */
async function storeOf(
  directory: TemporaryDirectory,
  lines: readonly string[],
): Promise<string> {
  const store = directory.file("plants.db");
  await importFile(store, writeLines(directory.file("in"), lines));
  return store;
}

Deno.test("export writes only lines that import accepts, including the largest", async () => {
  using directory = new TemporaryDirectory();
  const ids = [
    ["-92e17", -92n * 10n ** 17n],
    ["1e3", 1_000n],
    ["1e18", 10n ** 18n],
  ] as const;
  const bodies = ids.map(([spelling]) => {
    const start = `{"id":${spelling},"name":"`;
    return `${start}${"x".repeat(BODY_BYTES_MAX - start.length - 2)}"}`;
  });
  const exported = await exportLines(await storeOf(directory, bodies));
  assertSameLines(exported, bodies);
  const other = directory.file("other.db");
  const file = writeLines(directory.file("out"), exported);
  const ended = await importFile(other, file);
  assert.equal(ended.status, 0, ended.stderr);
  using kv = await Deno.openKv(other);
  for (const [, id] of ids) {
    assert.notEqual((await kv.get(["plants", id])).value, null, `${id}`);
  }
});

Deno.test("export names and skips keys and values that the service did not write", async () => {
  using directory = new TemporaryDirectory();
  const lines = [toLine(1n, "one"), toLine(9n, "nine", "t")];
  const store = await storeOf(directory, lines);
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
  const { status, stdout, stderr } = await runProgram([
    ...["export", "--kv", store],
  ]);
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
});

Deno.test({
  name: "export names and skips plants that no import would accept",
  // An older Deno cannot read the objects that a newer one stores.
  ignore: Deno.env.has("PLANT_STORE"),
  fn: async () => {
    using directory = new TemporaryDirectory();
    const store = await storeOf(directory, [toLine(1n, "one")]);
    const kv = await Deno.openKv(store);
    await kv.atomic()
      .set(["plants", 2n], { name: 2 })
      .set(["plants", 3n], { name: "three", tag: null })
      .set(["plants", 4n], { name: "\ud800" })
      .set(["plants", 5n], { name: "five", tag: "x".repeat(BODY_BYTES_MAX) })
      // Three bytes a character in a body, and two in the store.
      .set(["plants", 6n], { name: "竹".repeat(BODY_BYTES_MAX / 3) })
      .commit();
    kv.close();
    const { status, stdout, stderr } = await runProgram([
      ...["export", "--kv", store],
    ]);
    assert.equal(stdout, `${toLine(1n, "one")}\n`);
    assert.deepEqual(stderr.split("\n").toSorted(), [
      "",
      "1 exported, 5 skipped",
      '[ "plants", 2n ]: not a plant of this service',
      '[ "plants", 3n ]: not a plant of this service',
      "id 4: not a plant of this service",
      "id 5: not a plant of this service",
      "id 6: not a plant of this service",
    ]);
    assert.equal(status, 1);
  },
});

Deno.test("export refuses a missing file and another one, and leaves them as they are", async () => {
  using directory = new TemporaryDirectory();
  const text = directory.file("text.db");
  Deno.writeTextFileSync(text, "not a store, although its name says so\n");
  const missing = await runProgram(["export"], { cwd: directory.path });
  assertOneLine(
    missing,
    2,
    /cannot read \/.*\/plants\.db: no such file: name the store with --kv or KV_PATH$/m,
  );
  const other = await runProgram(["export", "--kv", text]);
  assertOneLine(
    other,
    2,
    `cannot read ${text}: not a Deno KV store: name another file with --kv or KV_PATH`,
  );
  assert.deepEqual(directory.names(), ["text.db"]);
});

Deno.test("export changes nothing in the store but the counters in its header", async () => {
  using directory = new TemporaryDirectory();
  const store = await storeOf(directory, drawLines(new Random(1), 500));
  // SQLite file format, sections 1.3.7 and 1.3.12.
  const read = () =>
    Buffer.from(Deno.readFileSync(store)).fill(0, 24, 28).fill(0, 92, 100);
  const before = read();
  await exportLines(store);
  assert.ok(read().equals(before));
});

Deno.test("export ends without a message when its reader closes the pipe", async () => {
  using directory = new TemporaryDirectory();
  const lines = drawLines(new Random(1), 5_000);
  const store = await storeOf(directory, lines);
  const { stdout, stderr, status } = await runProgram(
    ["export", "--kv", store],
    { shell: '{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 2' },
  );
  assert.equal(stdout, `${lines.slice(0, 2).join("\n")}\n`);
  assert.equal(stderr, "ended with 141\n");
  assert.equal(status, 0);
});

Deno.test("export gives up on a KV Connect server that stops responding after a page", async () => {
  await using server = new FakeKvServer();
  let calls = 0;
  server.data = () => ++calls > 1 ? new Promise(() => {}) : undefined;
  const ended = await runProgram(["export", "--kv", server.url], {
    env: KV_ENV,
  });
  assertOneLine(
    ended,
    1,
    `cannot read ${server.url}/: no answer within 10 s: check its address, ` +
      "and its token in DENO_KV_ACCESS_TOKEN",
  );
});

Deno.test("export while a service creates contains every earlier plant, in order", async () => {
  using directory = new TemporaryDirectory();
  const random = new Random(seedOfRun());
  const lines = drawLines(random, 5_000);
  const store = await storeOf(directory, lines);
  await using program = await Program.start(["--kv", store]);
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
