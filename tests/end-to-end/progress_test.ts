/** The progress of import and export on a terminal. */
import assert from "node:assert/strict";
import { needs } from "../support/needs.ts";
import { runProgram } from "../support/program.ts";
import { createStore, writeLines } from "../support/transfer.ts";

const onTerminal = needs("script");

const ERASE = "\r\x1b[K";
const PROGRESS = /^[\d,]+ plants, [\d,]+\/s$/;

/** Runs a command on a terminal; returns what stays there, and what it erases. */
async function show(args: readonly string[], output = "") {
  const { stdout } = await runProgram(args, {
    shell: `exec script -qec "$0 $* ${output}" /dev/null`,
  });
  const lines = stdout.split("\r\n").map((line) => line.split(ERASE));
  return {
    text: lines.map((parts) => parts.at(-1)).join("\n"),
    erased: lines.flatMap((parts) => parts.slice(0, -1)).filter(Boolean),
  };
}

function assertProgress(erased: readonly string[]): void {
  assert.notEqual(erased.length, 0);
  for (const line of erased) assert.match(line, PROGRESS);
}

onTerminal.test("import shows the plants so far on a terminal only, and erases them before each line and at the end", async ({ directory, store }) => {
  const lines = await createStore(store, 2_000);
  const file = writeLines(directory.file("in"), [...lines, "{}", "[]"]);
  const args = ["import", file, "--kv", store];
  const { stderr } = await runProgram(args);
  assert.match(stderr, /^line 2001: .*\nline 2002: .*\n0 created, 2000 /);
  const { text, erased } = await show(args);
  assert.equal(text, stderr);
  assertProgress(erased);
});

onTerminal.test("export shows the plants so far, and erases them, unless it writes the plants to the terminal", async ({ directory, store }) => {
  const lines = await createStore(store, 1_000);
  const exported = lines.map((line) => `${line}\n`).join("");
  const args = ["export", "--kv", store];
  const out = directory.file("out");
  const { text, erased } = await show(args, `> ${out}`);
  assert.equal(text, "");
  assertProgress(erased);
  assert.equal(Deno.readTextFileSync(out), exported);
  assert.deepEqual(await show(args), { text: exported, erased: [] });
});
