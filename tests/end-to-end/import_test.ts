import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { LINE_BYTES_MAX, VALUE_BYTES_MAX } from "../../src/limits.ts";
import { range } from "../support/plants.ts";
import { eventually } from "../support/waiting.ts";
import { Program, runProgram } from "../support/program.ts";
import { withSeed } from "../support/random.ts";
import { test } from "../support/tests.ts";
import {
  assertSameLines,
  drawLines,
  exportLines,
  importFile,
  shuffled,
  toLine,
  writeLines,
} from "../support/transfer.ts";

function summary({ created = 0, stored = 0, conflicting = 0, refused = 0 }) {
  return `${created} created, ${stored} already stored, ` +
    `${conflicting} conflicting, ${refused} refused\n`;
}

function newStore(store: string): string {
  return `created a new store in ${store}\n`;
}

test("an import says that it creates a store; exported again, it gives the same bytes, in the order of ids, and it can be repeated", ({ directory, store }) =>
  withSeed(async (random) => {
    const lines = drawLines(random, 3_000);
    const mixed = shuffled(lines, () => random.float());
    const file = writeLines(directory.file("in"), mixed);
    const outputs = [
      newStore(store) + summary({ created: 3_000 }),
      summary({ stored: 3_000 }),
    ];
    for (const output of outputs) {
      const { status, stdout, stderr } = await importFile(store, file);
      assert.deepEqual([status, stdout, stderr], [0, "", output]);
      assertSameLines(await exportLines(store), lines);
    }
  }));

test("import names each refused line and its reason, skips empty lines, and stores the others", async ({ directory, store }) => {
  const file = directory.file("in");
  // One character beyond Latin-1: V8 stores two bytes for each of all.
  const [largest, tooLarge] = [32_759, 32_760].map((count) =>
    toLine(2n, `Ā${"x".repeat(count)}`)
  );
  const tooLong = toLine(6n, "x".repeat(LINE_BYTES_MAX));
  const bytes = Buffer.from([
    '\ufeff{"id":1,"name":"one"}',
    '{"id":2}\r',
    "",
    '{"id":1,"name":"another"}',
    '{"id":1,"name":"one"}\r',
    tooLong,
    '{"id":4,"name":"BAD"}',
    tooLarge,
    largest,
  ].join("\n"));
  bytes.fill(0xff, bytes.indexOf("BAD"), bytes.indexOf("BAD") + 3);
  Deno.writeFileSync(file, bytes);
  const { status, stderr } = await importFile(store, file);
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "2 created, 1 already stored, 1 conflicting, 4 refused",
    newStore(store).trimEnd(),
    "line 2: name: expected a string, got nothing",
    "line 4: id: 1 is already taken by a different plant",
    `line 6: expected at most ${LINE_BYTES_MAX} bytes, got ${tooLong.length}`,
    "line 7: expected well-formed UTF-8",
    `line 8: expected a plant of at most ${VALUE_BYTES_MAX} bytes as stored, got 65538`,
  ]);
  assert.equal(status, 2);
  const stored = [toLine(1n, "one"), largest ?? ""];
  assertSameLines(await exportLines(store), stored);
});

/** Starts an import of stdin, which stays open. */
function startImport(store: string): Program {
  return Program.spawn(["import", "-", "--kv", store], { stdin: "piped" });
}

function encodeLines(ids: readonly bigint[]): Uint8Array<ArrayBuffer> {
  const lines = ids.map((id) => `${toLine(id, "x")}\n`);
  return new TextEncoder().encode(lines.join(""));
}

/** Writes the plant 1 to an import, and waits until it is stored. */
async function storeFirst({ process }: Program, store: string) {
  const stdin = process.stdin.getWriter();
  await stdin.write(encodeLines([1n]));
  await eventually((lines) => lines.includes('"id":1'), async () => {
    const exported = await runProgram(["export", "--kv", store]);
    return exported.stdout;
  });
  return stdin;
}

test("import stops when the store fails, and names the problem once", async ({ store }) => {
  await using program = startImport(store);
  const stdin = await storeFirst(program, store);
  Deno.removeSync(store);
  await stdin.write(encodeLines(range(2n, 300)));
  // It ends although its input does not.
  const { status, stderr } = await program.ended();
  await stdin.abort().catch(() => {});
  assert.match(
    stderr,
    /^created [^\n]*\nthe store fails: it was deleted or moved\n1 created, [^\n]*\nstopped after line 301, the store failed on 300 plants: repeat the same import when the store works\n$/,
  );
  assert.equal(status, 1);
});

test("a SIGINT ends an import, which has stored the lines before it", async ({ store }) => {
  await using program = startImport(store);
  const stdin = await storeFirst(program, store);
  const { signal, stderr } = await program.stop("SIGINT");
  await stdin.abort().catch(() => {});
  assert.deepEqual([signal, stderr], ["SIGINT", newStore(store)]);
  assert.deepEqual(await exportLines(store), [toLine(1n, "x")]);
});
