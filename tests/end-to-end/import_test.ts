import assert from "node:assert/strict";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import { range, toJson, writeLines } from "../support/plants.ts";
import {
  assertOneLine,
  exportLines,
  importFile,
  Program,
  runProgram,
} from "../support/program.ts";
import { type Random, withSeed } from "../support/random.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually, inParallel } from "../support/waiting.ts";

/** Texts that are easy to break. */
const TEXTS: readonly string[] = [
  "Monstera deliciosa",
  "",
  " ",
  'a "quoted" \\ name',
  "line\nbreak\r\nand\ttab",
  "\0\u0001\u001f\u007f\u0085",
  "\u2028\u2029\ufeff\ufffd",
  "Žlutý kůň, 含羞草, نبات",
  "🌱👩‍🌾\u{10ffff}",
  "</script><!--",
  "__proto__",
  "x".repeat(3_000),
];

/** Returns lines with ids from all over int64, in the order of the ids. */
function drawLines(random: Random, count: number): string[] {
  const ids = new Set([ID_MIN, -1n, 0n, 1n, 2n ** 53n + 1n, ID_MAX]);
  while (ids.size < count) ids.add(random.int64());
  return Array.from(BigInt64Array.from(ids).sort(), (id) => {
    const name = random.pick(TEXTS);
    const hasTag = random.chance(0.5);
    const plant = hasTag ? { name, tag: random.pick(TEXTS) } : { name };
    return toJson({ id, plant });
  });
}

/** Compares lines; the message of deepEqual would contain all of them. */
function assertSameLines(
  actual: readonly string[],
  expected: readonly string[],
): void {
  assert.equal(actual.length, expected.length);
  const at = actual.findIndex((line, i) => line !== expected[i]);
  assert.ok(at === -1, `line ${at + 1}: ${actual[at]} is not ${expected[at]}`);
}

const encoder = new TextEncoder();

/** Lines of the largest import, about 10 MB. */
const LINES = 20_000;

Deno.test("an import that is killed and repeated stores every plant, and changes nothing when it is repeated again", () =>
  withSeed(async (random) => {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const lines = drawLines(random, LINES);
    const mixed = lines.map((line) => ({ line, key: random.float() }))
      .sort((a, b) => a.key - b.key)
      .map(({ line }) => line);
    const file = writeLines(directory.file("in"), mixed);
    const sizeOf = (path: string) =>
      Deno.stat(path).then(({ size }) => size, () => 0);
    // Its input does not end, so an import is never complete when it is killed.
    const most = Deno.readTextFileSync(file).slice(0, -100_000);
    // The file grows when its log has become large.
    for (const size of [0, 2_000_000, 4_000_000]) {
      const args = ["import", "-", "--kv", store];
      await using importing = Program.spawn(args, { stdin: "piped" });
      const input = importing.process.stdin.getWriter();
      const sent = input.write(encoder.encode(most)).catch(() => {});
      const grown = eventually(() => sizeOf(store), (found) => found > size, {
        everyMs: 1,
      });
      await importing.causes(grown);
      await importing.stop("SIGKILL");
      await sent;
    }
    const { status, stderr } = await importFile(store, file);
    assert.equal(status, 0, stderr);
    // A stopped store is one file.
    assert.deepEqual(directory.names(), ["in", "plants.db"]);
    const [, created = "", stored = ""] =
      /^(\d+) created, (\d+) already stored, 0 conflicting, 0 refused\n$/
        .exec(stderr) ?? [];
    assert.equal(Number(created) + Number(stored), LINES, stderr);
    assert.ok(Number(created) > 0 && Number(stored) > 0, stderr);
    assertSameLines(await exportLines(store), lines);
    const repeated = await importFile(store, file);
    const all =
      `0 created, ${LINES} already stored, 0 conflicting, 0 refused\n`;
    assert.deepEqual([repeated.status, repeated.stderr], [0, all]);
    assertSameLines(await exportLines(store), lines);
  }));

Deno.test("import stores each line at once, stops at the next line when the store fails, and names the problem once", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = Program.spawn(["import", "-", "--kv", store], {
    stdin: "piped",
  });
  const stdin = program.process.stdin.getWriter();
  await stdin.write(encoder.encode('{"id":1,"name":"x"}\n'));
  await eventually(async () => {
    const { stdout } = await runProgram(["export", "--kv", store]);
    return stdout.includes('"id":1');
  });
  Deno.removeSync(store);
  const endless = inParallel(
    range(2n, 1_000_000),
    (id) => stdin.write(encoder.encode(`{"id":${id},"name":"x"}\n`)),
    1,
  );
  await assert.rejects(endless, Deno.errors.BrokenPipe);
  const { status, stderr } = await program.ended();
  assert.match(
    stderr,
    /^created [^\n]*\n1 created, [^\n]*\nstopped at line \d+, the store failed on \d+ plants? \(lost\): it was deleted or moved: do not stop the service before [^\n]*: repeat the same import when the store works\n$/,
  );
  assert.equal(status, 1);
});

Deno.test("import and --token-file refuse a path that Deno does not open, without its advice to allow everything", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  for (const args of [["import"], ["check", "--token-file"]]) {
    const all = [...args, "/dev/stdin", "--kv", store];
    const refused = await runProgram(all);
    assertOneLine(refused, 2, /cannot read \/dev\/stdin: Deno cannot open /);
    assert.doesNotMatch(refused.stderr, /allow/);
  }
  assert.deepEqual(directory.names(), []);
});
