/** Runs programs under strace, and reads what it wrote. */
import { resolve } from "node:path";
import type { ProgramOptions } from "./program.ts";

/** A line of a trace, or two that belong together. */
interface Line {
  readonly thread: string;
  readonly text: string;
  /** The lines where it started and returned: their order is that of time. */
  readonly startedAt: number;
  readonly returnedAt: number;
}

/** A system call of a traced program. */
export interface Call extends Line {
  readonly name: string;
  /** Its arguments; strings are empty here, and in `paths` or `data`. */
  readonly args: string;
  readonly paths: readonly string[];
  readonly data: Uint8Array<ArrayBuffer>;
  /** Its result, `-1` and a name if it failed; `?` without one. */
  readonly result: string;
}

const LINE = /^(\d+) +(<\.\.\. \w+ resumed>)?(.*?)( *<unfinished \.\.\.>)?$/gm;
const STRING = /"([^"]*)"/g;
const CALL = /^(\w+)\((.*)\) += (.*)$/;

/**
 * Returns how to start a program under strace, with all of its threads.
 * @param file for the output of strace
 * @param expressions what to trace and to inject
 */
export function traced(
  file: string,
  ...expressions: readonly string[]
): ProgramOptions {
  // Other system calls do not stop the program, unless strace injects.
  const speed = `${expressions}`.includes("inject=") ? "" : "--seccomp-bpf";
  return underStrace(`-f ${speed}`, file, expressions);
}

/**
 * Returns the same, for the calls of the first thread that are about one path:
 * strace counts the calls of each thread apart.
 */
export function tracedOn(
  path: string,
  file: string,
  ...expressions: readonly string[]
): ProgramOptions {
  return underStrace(`-P '${path}'`, file, expressions);
}

function underStrace(
  options: string,
  file: string,
  expressions: readonly string[],
): ProgramOptions {
  const quoted = expressions.map((it) => `-e '${it}'`).join(" ");
  // -D: signals reach the program, not strace; -s: more than any write has.
  const always = `-D -qq -y -xx -s 4000000 -o ${file}`;
  return {
    // Deno's caches make calls of their own.
    env: { DENO_DIR: "/dev/null" },
    shell: `exec strace ${options} ${always} ${quoted} "$0" "$@"`,
  };
}

/** Returns the calls of a trace in the order in which they returned. */
export function parseTrace(file: string, begin = 0): Call[] {
  const lines: Line[] = [];
  const unfinished = new Map<string, Line>();
  let returnedAt = begin;
  for (const match of Deno.readTextFileSync(file).matchAll(LINE)) {
    const [, thread = "", isResumed, rest = "", isUnfinished] = match;
    const begun = isResumed && unfinished.get(thread);
    const { startedAt, text } = begun || { startedAt: returnedAt, text: "" };
    const line = { thread, startedAt, returnedAt, text: text + rest };
    if (isResumed) unfinished.delete(thread);
    if (isUnfinished) unfinished.set(thread, line);
    else lines.push(line);
    returnedAt++;
  }
  return lines.flatMap(parseCall);
}

/** Returns a call; nothing for lines about signals and ends. */
function parseCall(line: Line): Call[] {
  const strings = line.text.matchAll(STRING).map(([, it = ""]) => it).toArray();
  const text = line.text
    .replace(STRING, '""')
    .replace(/(?:\\x..)+/g, unescapeText);
  const [, name, args = "", result = ""] = CALL.exec(text) ?? [];
  if (name === undefined) return [];
  const [, opened = "/"] = /<([^>]*)>/.exec(args) ?? [];
  const isAboutOpened = strings.length === 0 || /write|send/.test(name);
  const paths = (isAboutOpened ? [""] : strings.map(unescapeText))
    .map((it) => resolve(opened, it));
  const data = unescapeBytes(strings.join(""));
  return [{ ...line, text, name, args, paths, data, result }];
}

function unescapeBytes(escaped: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(escaped.replaceAll("\\x", ""));
}

function unescapeText(escaped: string): string {
  return new TextDecoder().decode(unescapeBytes(escaped));
}
