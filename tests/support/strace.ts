/** Reads what `strace -f -y -xx -o FILE` wrote. */
import assert from "node:assert/strict";

/** A system call of a traced program. */
export interface Call {
  readonly name: string;
  /** Its arguments; strings are empty here. */
  readonly args: string;
  /** The strings among the arguments, in order. */
  readonly strings: readonly Uint8Array<ArrayBuffer>[];
  /** Its result, `-1` and a name if it failed; `undefined` without one. */
  readonly result: string | undefined;
  /** The lines where it started and returned: their order is that of time. */
  readonly startedAt: number;
  readonly returnedAt: number;
}

type Strings = Uint8Array<ArrayBuffer>[];

interface Line {
  readonly text: string;
  readonly strings: Strings;
}

interface Unfinished extends Line {
  readonly startedAt: number;
}

const LINE_FEED = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Length of a byte in a string or a path: `\x2f`. */
const BYTE_CHARS = 4;

const LINE = /^(\d+) +(.*)$/;
const UNFINISHED = /^(.*?),? *<unfinished \.\.\.>$/;
const RESUMED = /^<\.\.\. \w+ resumed>(.*)$/;
const CALL = /^(\w+)\((.*)\) += (.*)$/;

/** The values of hexadecimal digits, by their code. */
const DIGITS = Uint8Array.from(
  { length: 256 },
  (_, code) =>
    Math.max(0, "0123456789abcdef".indexOf(String.fromCharCode(code))),
);

/** Returns the calls of a trace in the order in which they returned. */
export function* parseTrace(
  trace: Uint8Array<ArrayBuffer>,
): Generator<Call> {
  const unfinished = new Map<string, Unfinished>();
  let number = 0;
  for (let start = 0; start < trace.length;) {
    const lineFeed = trace.indexOf(LINE_FEED, start);
    const end = lineFeed === -1 ? trace.length : lineFeed;
    const { text, strings } = readLine(trace, start, end);
    start = end + 1;
    number++;

    const [, thread = "", rest = ""] = LINE.exec(text) ?? [];
    assert.ok(thread !== "", `not a line of strace: ${text}`);
    if (rest.startsWith("---") || rest.startsWith("+++")) continue;
    // A kill came before the call was read, so it has not run.
    if (rest.startsWith("???")) continue;
    const begun = UNFINISHED.exec(rest)?.[1];
    if (begun !== undefined) {
      unfinished.set(thread, { text: begun, strings, startedAt: number });
      continue;
    }
    const resumed = RESUMED.exec(rest)?.[1];
    const before = resumed === undefined ? undefined : unfinished.get(thread);
    if (resumed !== undefined) {
      assert.ok(before !== undefined, `nothing to resume: ${text}`);
      unfinished.delete(thread);
    }
    yield toCall(
      {
        text: (before?.text ?? "") + (resumed ?? rest),
        strings: [
          ...before?.strings ?? [],
          ...strings,
        ],
      },
      before?.startedAt ?? number,
      number,
    );
  }
  for (const { text, strings, startedAt } of unfinished.values()) {
    yield toCall({ text: `${text}) = ?`, strings }, startedAt, number);
  }
}

function toCall(
  { text, strings }: Line,
  startedAt: number,
  returnedAt: number,
): Call {
  const [, name = "", args = "", result = ""] = CALL.exec(text) ?? [];
  assert.ok(name !== "", `not a system call: ${text}`);
  return {
    name,
    args,
    strings,
    result: result.startsWith("?") ? undefined : result,
    startedAt,
    returnedAt,
  };
}

/** Decodes a line, and takes the strings out of it. */
function readLine(
  trace: Uint8Array<ArrayBuffer>,
  start: number,
  end: number,
): Line {
  const strings: Strings = [];
  let text = "";
  for (let i = start; i < end;) {
    const byte = trace[i] ?? 0;
    if (byte === QUOTE) {
      const close = trace.indexOf(QUOTE, i + 1);
      strings.push(readString(trace, i + 1, close));
      text += '""';
      i = close + 1;
    } else if (byte === BACKSLASH) {
      text += String.fromCharCode(readByte(trace, i));
      i += BYTE_CHARS;
    } else {
      text += String.fromCharCode(byte);
      i++;
    }
  }
  return { text, strings };
}

function readString(
  trace: Uint8Array,
  start: number,
  end: number,
): Uint8Array<ArrayBuffer> {
  const string = new Uint8Array((end - start) / BYTE_CHARS);
  for (let i = 0; i < string.length; i++) {
    string[i] = readByte(trace, start + i * BYTE_CHARS);
  }
  return string;
}

function readByte(trace: Uint8Array, at: number): number {
  const high = DIGITS[trace[at + 2] ?? 0] ?? 0;
  const low = DIGITS[trace[at + 3] ?? 0] ?? 0;
  return high << 4 | low;
}
