/** The progress of import and export on a terminal. */
import assert from "node:assert/strict";
import { READ_BYTES } from "../../src/plant/lines.ts";
import { needs } from "../support/needs.ts";
import { range } from "../support/plants.ts";
import { runProgram } from "../support/program.ts";
import { createStore, toLine, writeLines } from "../support/transfer.ts";

const onTerminal = needs("script");

const ERASE = "\r\x1b[K";

/** The lines of one read, all of the same length. */
const LINES_A_READ = READ_BYTES / 64;

/** Writes a file of two reads, the second of which starts with a bad line. */
function writeInput(path: string): string {
  const lines = range(10_000n, 2 * LINES_A_READ)
    .map((id) => toLine(id, "x".repeat(63 - toLine(id, "").length)));
  lines[LINES_A_READ] = "x".repeat(63);
  return writeLines(path, lines);
}

/** Runs the program on a terminal; returns what that shows. */
async function show(args: readonly string[], output = ""): Promise<string> {
  const { stdout } = await runProgram(args, {
    shell: `exec script -qec "$0 $* ${output}" /dev/null`,
  });
  return stdout.replaceAll("\r\n", "\n");
}

/** Asserts the beginning of what a terminal shows, without the rate. */
function assertStart(shown: string, expected: string): void {
  const start = shown.replace(/, [\d,]+\/s/, "").slice(0, expected.length);
  assert.equal(start, expected);
}

onTerminal.test("import shows the plants so far, and erases them for its messages", async ({ directory, store }) => {
  const file = writeInput(directory.file("in"));
  await createStore(store, 0);
  const shown = await show(["import", file, "--kv", store]);
  const plants = LINES_A_READ.toLocaleString("en");
  const line = `${ERASE}line ${LINES_A_READ + 1}: `;
  assertStart(shown, `${ERASE}${plants} plants${line}`);
  const end = `${2 * LINES_A_READ - 1} created, 0 already stored, ` +
    "0 conflicting, 1 refused\n";
  assert.ok(shown.endsWith(`${ERASE}${end}`), JSON.stringify(shown));
});

onTerminal.test("export shows the plants so far, unless it writes the plants to the terminal", async ({ directory, store }) => {
  const lines = await createStore(store, 100);
  const text = lines.map((line) => `${line}\n`).join("");
  const out = directory.file("out");
  const shown = await show(["export", "--kv", store], `> ${out}`);
  assertStart(shown, `${ERASE}100 plants`);
  assert.ok(shown.endsWith(ERASE), JSON.stringify(shown));
  assert.equal(Deno.readTextFileSync(out), text);
  assert.equal(await show(["export", "--kv", store]), text);
});
