/** Plants as lines, for tests of import and export. */
import assert from "node:assert/strict";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { Ledger } from "./ledger.ts";
import { range, toBody, WHOLE } from "./plants.ts";
import { assertSucceeded, type Ended, Program, runProgram } from "./program.ts";
import type { Random } from "./random.ts";

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

/** Returns a plant as an export writes it. */
export function toLine(id: bigint, name: string, tag?: string): string {
  return toBody({ id, plant: tag === undefined ? { name } : { name, tag } });
}

/** Returns an id from anywhere in int64. */
export function drawId(random: Random): bigint {
  const high = BigInt(random.int(0, 2 ** 32 - 1));
  return BigInt.asIntN(64, high << 32n | BigInt(random.int(0, 2 ** 32 - 1)));
}

/** Returns lines with ids from all over int64, in the order of the ids. */
export function drawLines(random: Random, count: number): string[] {
  const ids = new Set([ID_MIN, -1n, 0n, 1n, 2n ** 53n + 1n, ID_MAX]);
  while (ids.size < count) ids.add(drawId(random));
  return Array.from(BigInt64Array.from(ids).sort(), (id) => {
    const tag = random.chance(0.5) ? random.pick(TEXTS) : undefined;
    return toLine(id, random.pick(TEXTS), tag);
  });
}

/** Returns items in a random order. */
export function shuffled<T>(items: readonly T[], draw = Math.random): T[] {
  return items.map((item) => ({ item, key: draw() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);
}

/** Writes a file with these lines and returns its path. */
export function writeLines(path: string, lines: readonly string[]): string {
  Deno.writeTextFileSync(path, lines.map((line) => `${line}\n`).join(""));
  return path;
}

/** Runs an import of a file into a store. */
export function importFile(store: string, file: string): Promise<Ended> {
  return runProgram(["import", file, "--kv", store]);
}

/** Exports a store, which must succeed without a message. */
export async function exportLines(store: string): Promise<string[]> {
  const ended = await runProgram(["export", "--kv", store]);
  assert.equal(ended.stderr, "");
  assert.equal(ended.status, 0);
  const lines = ended.stdout.split("\n");
  assert.equal(lines.pop(), "");
  return lines;
}

/** Creates a store with the plants 1 to `count`, and returns their lines. */
export async function createStore(
  path: string,
  count: number,
  name = "Plant",
): Promise<string[]> {
  const lines = range(1n, count).map((id) => toLine(id, `${name} ${id}`));
  const file = writeLines(`${path}.in`, lines);
  assertSucceeded(await importFile(path, file));
  Deno.removeSync(file);
  return lines;
}

/** Creates the plants 1 to `count` and kills the service: the log has them. */
export async function createAndKill(
  path: string,
  count: number,
  plant: Plant = WHOLE,
): Promise<Ledger> {
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  const ids = range(1n, count);
  await ledger.store(program, ids.map((id) => ({ id, plant })));
  await program.stop("SIGKILL");
  return ledger;
}

/** Compares lines; the message of deepEqual would contain all of them. */
export function assertSameLines(
  actual: readonly string[],
  expected: readonly string[],
): void {
  assert.equal(actual.length, expected.length);
  const at = actual.findIndex((line, i) => line !== expected[i]);
  assert.ok(at === -1, `line ${at + 1}: ${actual[at]} is not ${expected[at]}`);
}
