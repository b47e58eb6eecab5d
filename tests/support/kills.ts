/** Kills at the system calls that change files. */
import assert from "node:assert/strict";
import { type Ended, runProgram } from "./program.ts";
import { numberFromEnv } from "./random.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** The system calls that write a file, sync it or change its name. */
const CALLS = "pwrite64,fsync,fdatasync,linkat,renameat,renameat2,unlinkat," +
  "?link,?rename,?unlink";

/** Runs the program, its main thread under strace with some expressions. */
export async function trace(
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
export function killPoints(
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
