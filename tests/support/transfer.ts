/** Plants as lines, for tests of import and export. */
import assert from "node:assert/strict";
import { range, toBody } from "./plants.ts";
import { assertSucceeded, type Ended, runProgram } from "./program.ts";
import type { Random } from "./random.ts";

/** Returns a plant as an export writes it. */
export function toLine(id: bigint, name: string, tag?: string): string {
  return toBody({ id, plant: tag === undefined ? { name } : { name, tag } });
}

/** Returns an id from anywhere in int64. */
export function drawId(random: Random): bigint {
  const high = BigInt(random.int(0, 2 ** 32 - 1));
  return BigInt.asIntN(64, high << 32n | BigInt(random.int(0, 2 ** 32 - 1)));
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
