import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { LINE_BYTES_MAX } from "../../src/limits.ts";
import { range } from "../support/plants.ts";
import { eventually, inParallel } from "../support/waiting.ts";
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

/** Lines of the largest import, about 10 MB. */
const LINES = 20_000;

test("an import that is killed and repeated stores every plant, exported byte by byte in the order of ids, and changes nothing when it is repeated again", ({ directory, store }) =>
  withSeed(async (random) => {
    const lines = drawLines(random, LINES);
    const mixed = shuffled(lines, () => random.float());
    const file = writeLines(directory.file("in"), mixed);
    const sizeOf = (path: string) =>
      Deno.stat(path).then(({ size }) => size, () => 0);
    // The file grows when its log has become large.
    for (const size of [0, 2_000_000, 4_000_000]) {
      await using importing = Program.spawn(["import", file, "--kv", store]);
      const grown = eventually((found) => found > size, () => sizeOf(store), {
        everyMs: 1,
      });
      await importing.causes(grown);
      await importing.stop("SIGKILL");
    }
    const { status, stderr } = await importFile(store, file);
    assert.equal(status, 0, stderr);
    const [, created = "", stored = ""] =
      /^(\d+) created, (\d+) already stored, 0 conflicting, 0 refused\n$/
        .exec(stderr) ?? [];
    assert.equal(Number(created) + Number(stored), LINES, stderr);
    assert.ok(Number(created) > 0 && Number(stored) > 0, stderr);
    assertSameLines(await exportLines(store), lines);
    const repeated = await importFile(store, file);
    assert.equal(repeated.stderr, summary({ stored: LINES }));
    assert.equal(repeated.status, 0);
    assertSameLines(await exportLines(store), lines);
  }));

test("import names each refused line and its reason, skips empty lines, stores the others, and ends at a line that is too long", async ({ directory, store }) => {
  const file = directory.file("in");
  const [longest = "", tooLong = ""] = [LINE_BYTES_MAX, LINE_BYTES_MAX + 1]
    .map((bytes) => toLine(2n, "x".repeat(bytes - toLine(2n, "").length)));
  const bytes = Buffer.from([
    '\ufeff{"id":1,"name":"one"}',
    '  {"id":2}\r',
    "",
    '{"id":1,"name":"another"}',
    '{"id":1,"name":"one"}\r',
    '{"id":4,"name":"BAD"}',
    longest,
    tooLong,
    '{"id":5,"name":"not read"}',
  ].join("\n"));
  bytes.fill(0xff, bytes.indexOf("BAD"), bytes.indexOf("BAD") + 3);
  Deno.writeFileSync(file, bytes);
  const { status, stderr } = await importFile(store, file);
  assert.deepEqual(stderr.split("\n").toSorted(), [
    "",
    "2 created, 1 already stored, 1 conflicting, 2 refused",
    newStore(store).trimEnd(),
    "line 2: name: expected a string, got nothing",
    "line 4: id: 1 is already taken by a different plant",
    "line 6: expected well-formed UTF-8",
    `plant-store: line 8: expected at most ${LINE_BYTES_MAX} bytes: shorten it, ` +
    "and repeat the import",
  ]);
  assert.equal(status, 2);
  assertSameLines(await exportLines(store), [toLine(1n, "one"), longest]);
});

const encoder = new TextEncoder();

test("import stores each line at once, stops at the next line when the store fails, and names the problem once", async ({ store }) => {
  await using program = Program.spawn(["import", "-", "--kv", store], {
    stdin: "piped",
  });
  const stdin = program.process.stdin.getWriter();
  await stdin.write(encoder.encode(`${toLine(1n, "x")}\n`));
  await eventually((lines) => lines.includes('"id":1'), async () => {
    const exported = await runProgram(["export", "--kv", store]);
    return exported.stdout;
  });
  Deno.removeSync(store);
  const endless = inParallel(
    range(2n, 1_000_000),
    (id) => stdin.write(encoder.encode(`${toLine(id, "x")}\n`)),
    1,
  );
  await assert.rejects(endless, Deno.errors.BrokenPipe);
  const { status, stderr } = await program.ended();
  assert.match(
    stderr,
    /^created [^\n]*\n1 created, [^\n]*\nstopped at line \d+, the store failed on \d+ plants?: it was deleted or moved: repeat the same import when the store works\n$/,
  );
  assert.equal(status, 1);
});
