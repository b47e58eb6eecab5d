/** The exit statuses that the tests of the commands do not assert. */
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

/** Commands in a directory with a store. */
const COMMANDS: readonly [
  status: number,
  args: readonly string[],
  options?: ProgramOptions,
][] = [
  // A failure that can pass by itself.
  [1, ["healthcheck", "--port", "1"]],
  [1, ["serve", "--port", "1", "--host", "192.0.2.1"]],
  [1, ["export"], { shell: '"$0" "$@" >/dev/full' }],
  // A configuration or a file that must change.
  [2, ["import", "missing/lines"]],
  [2, ["import", "."]],
  [2, ["serve", "--port", "0", "--token-file", "missing"]],
  [2, ["serve", "--port", "0", "--kv", "missing/plants.db"]],
  [2, ["export", "--kv", "loop.db"]],
  [2, ["export", "--kv", `${"x".repeat(300)}.db`]],
];

test("a command that fails ends with the status that the README documents", async ({ directory, store }) => {
  await createStore(store, 10);
  Deno.symlinkSync("loop.db", directory.file("loop.db"));
  for (const [status, args, options] of COMMANDS) {
    const place = { cwd: directory.path, env: { KV_PATH: store } };
    const ended = await runProgram(args, { ...options, ...place });
    assert.equal(ended.status, status, `${args.join(" ")}: ${ended.stderr}`);
  }
});

withStrace.test("a file that fails in the middle of an import is a failure that can pass", async ({ directory, store }) => {
  const lines = range(1n, 20_000).map((id) => toLine(id, PLANT.name));
  const file = writeLines(directory.file("lines"), lines);
  const trace = directory.file("trace");
  // strace counts the reads of each thread: few threads run with the caches.
  const ended = await importFile(store, file, {
    ...tracedOn(file, trace, "inject=read:error=EIO:when=2+"),
    env: {},
  });
  assertInjected(trace);
  const [counts = "", message = ""] = ended.stderr.split(/(?<=\n)/);
  assert.match(counts, /^\d+ created, 0 already stored, /);
  assertOneLine(
    { ...ended, stderr: message },
    1,
    /: cannot read \S+lines: Input\/output error/,
  );
});
