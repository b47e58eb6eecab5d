/** The progress of import and export on a terminal. */
import assert from "node:assert/strict";
import { isMissing } from "../support/needs.ts";
import {
  makeStore,
  newPlants,
  range,
  toJson,
  toLines,
  writeLines,
} from "../support/plants.ts";
import { runProgram } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const ERASE = "\r\x1b[K";
const PROGRESS = /^[\d,]+ plants$/;

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

Deno.test({
  name:
    "import shows its progress on a terminal only, and erases it before each line and at the end",
  ignore: isMissing("script"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const plants = newPlants(range(1n, 2_000));
    await makeStore(store, plants);
    const lines = [...plants.map(toJson), "{}", "[]"];
    const file = writeLines(directory.file("in"), lines);
    const args = ["import", file, "--kv", store];
    const { stderr } = await runProgram(args);
    assert.match(stderr, /^line 2001: .*\nline 2002: .*\n0 created, 2000 /);
    const { text, erased } = await show(args);
    assert.equal(text, stderr);
    assertProgress(erased);
  },
});

Deno.test({
  name: "import - and replace - say on a terminal that they wait for input",
  ignore: isMissing("script"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await makeStore(store, newPlants([1n]));
    const waiting = "reading from the terminal: end the input with Ctrl-D\n";
    for (const command of ["import", "replace"]) {
      const args = [command, "-", "--kv", store];
      const { stderr } = await runProgram(args);
      assert.ok(!stderr.includes(waiting), stderr);
      assert.deepEqual(await show(args), {
        text: waiting + stderr,
        erased: [],
      });
    }
  },
});

Deno.test({
  name:
    "export shows its progress, and erases it, unless it writes the plants to the terminal",
  ignore: isMissing("script"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const plants = newPlants(range(1n, 1_000));
    await makeStore(store, plants);
    const exported = toLines(plants);
    const args = ["export", "--kv", store];
    const out = directory.file("out");
    const { text, erased } = await show(args, `> ${out}`);
    assert.equal(text, "");
    assertProgress(erased);
    assert.equal(Deno.readTextFileSync(out), exported);
    assert.deepEqual(await show(args), { text: exported, erased: [] });
  },
});
