/** A backup, and a restored store, has its name only when it is complete. */
import assert from "node:assert/strict";
import { type Ended, runProgram } from "../support/program.ts";
import { numberFromEnv } from "../support/random.ts";
import { withStrace } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import {
  assertSameLines,
  createStore,
  exportLines,
} from "../support/transfer.ts";

const COPY = "copy.db";
const LEFTOVER = /^copy\.db\.[0-9a-f]{8}\.partial$/;

/** Kills at writes: the others do what the first ones do. */
const WRITE_KILLS_MAX = 2;

/** The arguments that make a copy of a store. */
const COMMANDS = {
  "a backup": (store: string, copy: string) => ["backup", copy, "--kv", store],
  "a restore": (store: string, copy: string) => [
    ...["restore", store, "--kv", copy],
  ],
} as const;

/** File systems, and how strace makes one of them. */
const FILE_SYSTEMS: readonly [where: string, expressions: string[]][] = [
  ["", []],
  // As on FAT.
  [" on a file system without hard links, owners and permissions", [
    "inject=?link,linkat,?chmod,fchmod,fchmodat,?chown,fchown,fchownat:error=EPERM",
  ]],
];

/** The system calls that write a file, sync it or change its name. */
const CALLS = "pwrite64,fsync,fdatasync,linkat,renameat,renameat2,unlinkat," +
  "?link,?rename,?unlink";

/** Runs the program, its main thread under strace with some expressions. */
async function trace(
  args: readonly string[],
  expressions: readonly string[] = [],
): Promise<{ readonly ended: Ended; readonly trace: string }> {
  using directory = new TemporaryDirectory();
  const file = directory.file("trace");
  const options = [`trace=${CALLS}`, ...expressions].map((it) => `-e '${it}'`);
  const ended = await runProgram(args, {
    // Without the caches of Deno, whose calls differ from run to run.
    env: { DENO_DIR: "/dev/null" },
    shell: `exec strace -qq -o ${file} ${options.join(" ")} "$0" "$@"`,
  });
  return { ended, trace: Deno.readTextFileSync(file) };
}

/** Maximum number of kill points of a run of the program. */
const KILL_POINTS = numberFromEnv("KILL_POINTS", 4);

/**
 * Returns expressions for strace, which kill at calls of a traced run; and their
 * names for messages. They are spread evenly over the run, and the last call is
 * one of them.
 * @param writesMax the first writes; the others do the same
 */
function killPoints(
  trace: string,
  writesMax: number,
): ReadonlyMap<string, string> {
  const counts = new Map<string, number>();
  const points = new Map<string, string>();
  for (const [, call = "", rest = ""] of trace.matchAll(/^(\w+)\((.*)$/gm)) {
    const nth = (counts.get(call) ?? 0) + 1;
    counts.set(call, nth);
    if (rest.includes("INJECTED")) continue;
    if (call === "pwrite64" && nth > writesMax) continue;
    const expression = `inject=${call}:signal=SIGKILL:when=${nth}`;
    points.set(`${call} ${nth}`, expression);
  }
  assert.ok(points.size > 5, trace);
  const share = (count: number) =>
    Math.floor(count * KILL_POINTS / points.size);
  return new Map([...points].filter((_, i) => share(i + 1) > share(i)));
}

for (const [command, argsOf] of Object.entries(COMMANDS)) {
  for (const [where, expressions] of FILE_SYSTEMS) {
    withStrace.test(`${command}${where} makes a complete file, or none, if it is killed at a sync, link, rename, removal or one of the first writes`, async ({ directory, store }) => {
      const lines = await createStore(store, 100);
      /** Runs it in a new directory, and checks what it has left there. */
      async function run(name: string, kill: string[] = []) {
        using target = new TemporaryDirectory();
        const copy = target.file(COPY);
        // The files that a kill leaves beside a store change the next calls.
        const fresh = directory.file(`${name}.db`);
        Deno.copyFileSync(store, fresh);
        const args = argsOf(fresh, copy);
        const traced = await trace(args, [...expressions, ...kill]);
        const names = target.names();
        const isMade = names.includes(COPY);
        if (isMade) assertSameLines(await exportLines(copy), lines);
        for (const left of names.filter((name) => name !== COPY)) {
          assert.match(left, LEFTOVER, name);
          const { mode } = Deno.statSync(target.file(left));
          assert.equal((mode ?? 0) & 0o077, 0, `others may read it, ${name}`);
        }
        return { ...traced, isMade, isClean: names.length === 1 };
      }

      const { ended, trace: calls, ...made } = await run("whole");
      assert.equal(ended.status, 0, ended.stderr);
      assert.deepEqual(made, { isMade: true, isClean: true });
      const isWithout = expressions.length > 0;
      assert.equal(/EPERM .*INJECTED/.test(calls), isWithout, calls);
      let copies = 0;
      const points = killPoints(calls, isWithout ? 0 : WRITE_KILLS_MAX);
      for (const [name, expression] of points) {
        const { ended, isMade } = await run(name, [expression]);
        assert.equal(ended.signal, "SIGKILL", `${name}: ${ended.stderr}`);
        if (isMade) copies++;
      }
      assert.ok(copies > 0, "no kill came after the copy had its name");
    });
  }
}
