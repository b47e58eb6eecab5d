import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  ID_MAX,
  ID_MIN,
  LINE_BYTES_MAX,
  VALUE_BYTES_MAX,
} from "../../src/limits.ts";
import { KV_ENV, KvServer, withServer } from "../support/kv_server.ts";
import { eventually, range } from "../support/load.ts";
import {
  Program,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { Random, seedOfRun } from "../support/random.ts";
import type { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  drawLines,
  exportLines,
  importFile,
  shuffle,
  toLine,
  writeLines,
} from "../support/transfer.ts";

const BYTE_ORDER_MARK = "\ufeff";

const encoder = new TextEncoder();

function summary({ created = 0, stored = 0, conflicting = 0, refused = 0 }) {
  return `${created} created, ${stored} already stored, ` +
    `${conflicting} conflicting, ${refused} refused\n`;
}

/** Returns the number of plants that another process has stored. */
async function countPlants(store: string): Promise<number> {
  const { status, stdout } = await runProgram(["export", "--kv", store]);
  return status === 0 ? stdout.split("\n").length - 1 : 0;
}

/** Imports random plants twice, and exports them. */
async function testRoundTrip(
  directory: TemporaryDirectory,
  store: string,
  options: ProgramOptions = {},
): Promise<void> {
  const random = new Random(seedOfRun());
  const lines = drawLines(random, 8_000);
  const file = writeLines(directory.file("in"), shuffle(random, lines));
  for (const counts of [{ created: 8_000 }, { stored: 8_000 }]) {
    const { status, stdout, stderr } = await importFile(store, file, options);
    assert.deepEqual([status, stdout, stderr], [0, "", summary(counts)]);
    assertSameLines(await exportLines(store, options), lines);
  }
}

test("an import that is exported again gives the same bytes, in the order of ids, and can be repeated", async ({ directory, store }) => {
  await testRoundTrip(directory, store);
});

withServer.test("an import into a KV Connect server that is exported again gives the same bytes, in the order of ids, and can be repeated", async ({ directory }) => {
  await using server = await KvServer.start(directory.file("kv.db"));
  await testRoundTrip(directory, server.url, { env: KV_ENV });
});

test("import names each refused line and its reason, skips empty lines, and stores the others", async ({ directory, store }) => {
  const file = directory.file("in");
  const long = toLine(6n, "x".repeat(LINE_BYTES_MAX));
  const longestLatin1 = "x".repeat(LINE_BYTES_MAX - toLine(9n, "").length);
  const text = [
    `${BYTE_ORDER_MARK}{"id":1,"name":"one"}`,
    '{"id":2}\r',
    '{"id":1.5,"name":"half"}',
    '{"id":3,"name":x}',
    "",
    "\r",
    "[]",
    '{"id":1,"name":"another"}',
    '{"id":1,"name":"one"}\r',
    `${long}\r`,
    '{"id":4,"name":"BAD"}',
    '{"id":5,"name":"five"}',
    // One character beyond Latin-1: V8 stores two bytes for each of all.
    toLine(7n, `Ā${"x".repeat(32_760)}`),
    toLine(8n, `Ā${"x".repeat(32_759)}`),
    toLine(9n, longestLatin1),
  ].join("\n");
  const bytes = Buffer.from(text);
  bytes.set([0xff, 0xfe, 0xfd], bytes.indexOf("BAD"));
  Deno.writeFileSync(file, bytes);
  const { status, stderr } = await importFile(store, file);
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "4 created, 1 already stored, 1 conflicting, 7 refused",
    `line 10: expected at most ${LINE_BYTES_MAX} bytes, got ${long.length}`,
    "line 11: expected well-formed UTF-8",
    `line 13: expected a plant of at most ${VALUE_BYTES_MAX} bytes as stored, got 65538`,
    "line 2: name: expected a string, got nothing",
    `line 3: id: expected an integer from ${ID_MIN} to ${ID_MAX}, got 1.5`,
    'line 4: column 16: expected a value, found "x"',
    "line 7: expected an object with id and name, got an array",
    "line 8: id: 1 is already taken by a different plant",
  ]);
  assert.equal(status, 1);
  const stored = [
    toLine(1n, "one"),
    toLine(5n, "five"),
    toLine(8n, `Ā${"x".repeat(32_759)}`),
    toLine(9n, longestLatin1),
  ];
  assertSameLines(await exportLines(store), stored);
});

test("import reports the lines before a failure to read stdin", async ({ directory, store }) => {
  const { status, stderr } = await runProgram(["import", "-", "--kv", store], {
    shell: `"$0" "$@" < ${directory.path}`,
  });
  assert.equal(
    stderr,
    `${summary({})}plant-store: cannot read stdin: it is a directory\n`,
  );
  assert.equal(status, 2);
});

test("import stops when the store fails, and names the problem once", async ({ store }) => {
  await using program = Program.spawn(["import", "-", "--kv", store], {
    stdin: "piped",
  });
  const writer = program.process.stdin.getWriter();
  await writer.write(encoder.encode(`${toLine(1n, "one")}\n`));
  await eventually((lines) => lines === 1, () => countPlants(store));
  Deno.removeSync(store);
  const lines = range(2n, 300).map((id) => toLine(id, "x"));
  await writer.write(encoder.encode(`${lines.join("\n")}\n`));
  // It ends although its input does not.
  const { status, stderr } = await program.ended();
  await writer.abort().catch(() => {});
  assert.match(
    stderr,
    /^the store fails: it was deleted or moved\n1 created, [^\n]*\nstopped after line 301, the store failed on 300 plants: repeat the same import when the store works\n$/,
  );
  assert.equal(status, 1);
});
