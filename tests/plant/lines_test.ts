import assert from "node:assert/strict";
import { type Read, readLines } from "../../src/plant/lines.ts";
import { LINE_BYTES_MAX } from "../../src/limits.ts";
import { withSeed } from "../support/random.ts";
import { concatenate, toBytes } from "../support/wire.ts";

const MARK = new Uint8Array([0xef, 0xbb, 0xbf]);
const NOT_UTF8 = new Uint8Array([0x61, 0xff]);

const TOO_LONG = (bytes: number) =>
  `expected at most ${LINE_BYTES_MAX} bytes, got ${bytes}`;

/** A line, or the message of its problem in an array. */
type Line = string | readonly [string];

/** Returns a function that reads bytes, at most as many a call as are given. */
function readOf(bytes: Uint8Array, nextSize: () => number): Read {
  let at = 0;
  return (buffer) => {
    if (at === bytes.length) return Promise.resolve(null);
    const chunk = bytes.subarray(at, at + Math.min(nextSize(), buffer.length));
    buffer.set(chunk);
    at += chunk.length;
    return Promise.resolve(chunk.length);
  };
}

async function linesOf(read: Read): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const some of readLines(read)) {
    for (const line of some) {
      lines.push(typeof line === "string" ? line : [line.problem]);
    }
  }
  return lines;
}

Deno.test("readLines() yields lines that end with LF or CRLF, and problems, without a byte order mark at the start", async () => {
  const notUtf8: Line = ["expected well-formed UTF-8"];
  const longest = "é".repeat(LINE_BYTES_MAX / 2);
  for (
    const [input, ...expected] of [
      [""],
      ["\n", ""],
      ["a\nb\r\n\r\nc", "a", "b", "", "c"],
      ["a\rb\n\rc\r\r\n\r", "a\rb", "\rc\r", ""],
      ["Олива\u2028b\u0085\n竹🌿", "Олива\u2028b\u0085", "竹🌿"],
      [MARK],
      [concatenate(MARK, "\r\n", MARK, "a"), "", "\ufeffa"],
      [concatenate(MARK, MARK, longest.slice(2)), `\ufeff${longest.slice(2)}`],
      // A part of a byte order mark is not skipped.
      [MARK.subarray(0, 1), notUtf8],
      [concatenate(MARK.subarray(0, 2), "\na"), notUtf8, "a"],
      [concatenate(NOT_UTF8, "\nb\r\n", NOT_UTF8), notUtf8, "b", notUtf8],
      [concatenate(MARK, `${longest}\r\n${longest}`), longest, longest],
      [`${longest}x\r\na`, [TOO_LONG(LINE_BYTES_MAX + 1)], "a"],
    ] as const
  ) {
    const bytes = toBytes(input);
    const sizes = [Infinity, 7, ...(bytes.length < 1_000 ? [1, 2, 3] : [])];
    for (const size of sizes) {
      const lines = await linesOf(readOf(bytes, () => size));
      assert.deepEqual(lines, expected, `in reads of ${size} bytes`);
    }
  }
});

Deno.test("readLines() rejects if a read fails", async () => {
  const lines = linesOf(() => Promise.reject(new Error("I/O error")));
  await assert.rejects(lines, /I\/O error/);
});

/** Splits the whole text at once: what readLines() does in parts. */
function modelLines(bytes: Uint8Array): Line[] {
  const latin1 = new TextDecoder("latin1").decode(bytes)
    .replace(/^\xef\xbb\xbf/, "");
  const lines = latin1.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return lines.map((line): Line => {
    const content = line.replace(/\r$/, "");
    if (content.length > LINE_BYTES_MAX) return [TOO_LONG(content.length)];
    try {
      const bytes = Uint8Array.from(content, (it) => it.charCodeAt(0));
      return utf8.decode(bytes);
    } catch {
      return ["expected well-formed UTF-8"];
    }
  });
}

Deno.test("readLines() agrees with a simple model on random texts and reads", () =>
  withSeed(async (random) => {
    const near = () => "x".repeat(LINE_BYTES_MAX + random.int(-2, 3));
    for (let round = 0; round < 300; round++) {
      const parts = Array.from(
        { length: random.int(0, 12) },
        () =>
          random.chance(0.1)
            ? random.pick([near(), near(), "x".repeat(random.int(0, 300_000))])
            : random.pick(["\n", "\r\n", "\r", MARK, "a", "竹", NOT_UTF8]),
      );
      const bytes = concatenate(...parts);
      const sizes = random.pick([[1, 8], [1, 4e4], [LINE_BYTES_MAX, 3e5]]);
      const [min = 1, max = 1] = bytes.length < 1_000 ? [1, 4] : sizes;
      const lines = await linesOf(readOf(bytes, () => random.int(min, max)));
      assert.deepEqual(lines, modelLines(bytes), `round ${round}`);
    }
  }));
