/** Runs programs under strace, and reads what it wrote. */
import assert from "node:assert/strict";
import { needs } from "./needs.ts";
import type { ProgramOptions } from "./program.ts";

export const withStrace = needs("strace");

/** More than any write has. */
const STRING_BYTES_MAX = 4_000_000;

/** A system call of a traced program. */
export interface Call {
  readonly name: string;
  /** Its arguments; strings are empty here. */
  readonly args: string;
  /** The strings among the arguments, in order. */
  readonly strings: readonly Uint8Array<ArrayBuffer>[];
  /** Its result, `-1` and a name if it failed; `?` without one. */
  readonly result: string;
  /** The lines where it started and returned: their order is that of time. */
  readonly startedAt: number;
  readonly returnedAt: number;
}

const LINE = /^(\d+) +(.*)$/;
const UNFINISHED = /,? *<unfinished \.\.\.>$/;
const RESUMED = /^<\.\.\. \w+ resumed>/;
const CALL = /^(\w+)\((.*)\) += (.*)$/;

/**
 * Returns how to start a program under strace.
 * @param file for the output of strace
 * @param expressions what to trace and to inject
 */
export function traced(file: string, ...expressions: readonly string[]) {
  const quoted = expressions.map((expression) => `-e '${expression}'`);
  // Other system calls do not stop the program, unless strace injects.
  const speed = `${expressions}`.includes("inject=") ? "" : "--seccomp-bpf";
  // -D: signals to the process reach the program, not strace.
  const options = `${speed} -D -f -qq -y -xx -s ${STRING_BYTES_MAX} -o ${file}`;
  return {
    // Deno's caches make calls of their own.
    env: { DENO_DIR: "/dev/null" },
    shell: `exec strace ${options} ${quoted.join(" ")} "$0" "$@"`,
  };
}

/** Returns the same, for the calls that are about one path. */
export function tracedOn(
  path: string,
  file: string,
  ...expressions: readonly string[]
): ProgramOptions {
  const { env, shell } = traced(file, ...expressions);
  return { env, shell: shell.replace(' "$0"', ` -P '${path}' "$0"`) };
}

/** Asserts that strace has injected a fault or a delay. */
export function assertInjected(file: string): void {
  assert.match(Deno.readTextFileSync(file), /\((INJECTED|DELAYED)\)$/m);
}

/**
 * Returns the calls of a trace in the order in which they returned.
 * @param begin the time of the first line
 */
export function parseTrace(file: string, begin: number): Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, [startedAt: number, text: string]>();
  const lines = Deno.readTextFileSync(file).trimEnd().split("\n");
  const end = begin + lines.length;
  for (const [i, line] of lines.entries()) {
    const now = begin + i;
    const [, thread = "", rest = ""] = LINE.exec(line) ?? [];
    assert.ok(thread !== "", `not a line of strace: ${line}`);
    // Signals, exits, and calls that were killed before they were read.
    if (/^(---|\+\+\+|\?\?\?)/.test(rest)) continue;
    if (UNFINISHED.test(rest)) {
      unfinished.set(thread, [now, rest.replace(UNFINISHED, "")]);
      continue;
    }
    const [startedAt, first] = unfinished.get(thread) ?? [now, ""];
    unfinished.delete(thread);
    calls.push(parseCall(first + rest.replace(RESUMED, ""), startedAt, now));
  }
  for (const [startedAt, first] of unfinished.values()) {
    calls.push(parseCall(`${first}) = ?`, startedAt, end));
  }
  return calls;
}

function parseCall(text: string, startedAt: number, returnedAt: number): Call {
  const strings: Uint8Array<ArrayBuffer>[] = [];
  const rest = text.replace(/"([^"]*)"/g, (_, escaped: string) => {
    strings.push(Uint8Array.fromHex(escaped.replaceAll("\\x", "")));
    return '""';
  }).replace(
    /\\x(..)/g,
    (_, hex: string) => String.fromCharCode(parseInt(hex, 16)),
  );
  const [, name = "", args = "", result = ""] = CALL.exec(rest) ?? [];
  assert.ok(name !== "", `not a system call: ${rest}`);
  return { name, args, strings, result, startedAt, returnedAt };
}
