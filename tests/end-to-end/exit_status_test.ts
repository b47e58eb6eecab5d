/** The exit statuses, as the table of the README has them. */
import assert from "node:assert/strict";
import { PLANT, range } from "../support/load.ts";
import {
  assertOneLine,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { test } from "../support/tests.ts";
import {
  createStore,
  importFile,
  toLine,
  writeLines,
} from "../support/transfer.ts";

/** Commands in a directory with a store, `lines` and `long.jsonl`. */
const COMMANDS: readonly [
  status: number,
  args: readonly string[],
  options?: ProgramOptions,
][] = [
  [0, ["--version"]],
  [0, ["export"]],
  [0, ["import", "lines"]],
  [0, ["backup", "copy.db"]],
  // A failure that can pass by itself, or a part that was skipped.
  [1, ["export", "1", "99999"]],
  [1, ["import", "conflicts"]],
  [1, ["healthcheck", "--port", "1"]],
  [1, ["serve", "--port", "1", "--host", "192.0.2.1"]],
  [1, ["export"], { shell: '"$0" "$@" >/dev/full' }],
  // A command line, a configuration or a file that must change.
  [2, ["frobnicate"]],
  [2, ["--frobnicate"]],
  [2, ["export", "one"]],
  [2, ["import", "missing"]],
  [2, ["import", "missing/lines"]],
  [2, ["import", "."]],
  [2, ["backup", "missing/copy.db"]],
  [2, ["backup", "lines"]],
  [2, ["restore", "missing"]],
  [2, ["restore", "lines"]],
  [2, ["serve", "--port", "0", "--token-file", "missing"]],
  [2, ["serve", "--port", "0", "--kv", "missing/plants.db"]],
  [2, ["export", "--kv", "loop.db"]],
  [2, ["export", "--kv", `${"x".repeat(300)}.db`]],
  // The reader of an export closed the pipe.
  [141, ["export"], { shell: '{ "$0" "$@"; echo $? >&3; } 3>&2 | :' }],
];

test("every command ends with the status that the README documents", async ({ directory, store }) => {
  await createStore(store, 10_000);
  const lines = range(20_000n, 3).map((id) => toLine(id, PLANT.name));
  writeLines(directory.file("lines"), lines);
  writeLines(directory.file("conflicts"), [toLine(1n, "another")]);
  Deno.symlinkSync("loop.db", directory.file("loop.db"));
  for (const [status, args, options] of COMMANDS) {
    const kv = args.includes("--kv") ? [] : ["--kv", "plants.db"];
    const words = args[0]?.startsWith("health") ? args : [...args, ...kv];
    const ended = await runProgram(words, { ...options, cwd: directory.path });
    const name = `${args.join(" ")}: ${ended.stderr}`;
    // The shell prints the status of a command in a pipe.
    const found = status === 141 ? Number(ended.stderr) : ended.status;
    assert.equal(found, status, name);
  }
});

withStrace.test("a file that fails in the middle of an import is a failure that can pass", async ({ directory, store }) => {
  const lines = range(1n, 10_000).map((id) => toLine(id, PLANT.name));
  const file = writeLines(directory.file("lines"), lines);
  const trace = directory.file("trace");
  const ended = await importFile(
    store,
    file,
    tracedOn(file, trace, "inject=read:error=EIO:when=2+"),
  );
  assertInjected(trace);
  const [counts = "", message = ""] = ended.stderr.split(/(?<=\n)/);
  assert.match(counts, /^\d+ created, 0 already stored, /);
  assertOneLine(
    { ...ended, stderr: message },
    1,
    /: cannot read \S+lines: Input\/output error/,
  );
});
