import assert from "node:assert/strict";
import { type Read, readLines } from "../../src/plant/lines.ts";
import { LINE_BYTES_MAX } from "../../src/limits.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { readOf } from "../support/transfer.ts";
import { concatenate, toBytes } from "../support/wire.ts";

const MARK = new Uint8Array([0xef, 0xbb, 0xbf]);
const NOT_UTF8 = new Uint8Array([0x61, 0xff]);

const TOO_LONG = (bytes: number) =>
  `expected at most ${LINE_BYTES_MAX} bytes, got ${bytes}`;

/** A line, or the message of its problem in an array. */
type Line = string | [string];

async function linesOf(read: Read): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const some of readLines(read)) {
    for (const line of some) {
      lines.push(typeof line === "string" ? line : [line.problem]);
    }
  }
  return lines;
}

/** Asserts the lines of a text, whatever the sizes of the reads. */
async function assertLines(
  text: string | Uint8Array,
  expected: readonly Line[],
): Promise<void> {
  const bytes = toBytes(text);
  const sizes = [Infinity, 7, ...(bytes.length < 1_000 ? [1, 2, 3] : [])];
  for (const size of sizes) {
    const lines = await linesOf(readOf(bytes, () => size));
    assert.deepEqual(lines, expected, `in reads of ${size} bytes`);
  }
}

/** Returns a text of a number of ASCII characters. */
function text(bytes: number): string {
  return "x".repeat(bytes);
}

Deno.test("readLines() yields lines that end with LF or CRLF", async () => {
  for (
    const [input, ...expected] of [
      [""],
      ["\n", ""],
      ["a\nb", "a", "b"],
      ["a\r\nb\r\n", "a", "b"],
      ["a\r\r\n", "a\r"],
      ["a\rb\n\rc", "a\rb", "\rc"],
      ["a\r", "a"],
      ["Олива\n竹🌿", "Олива", "竹🌿"],
      ["a\u2028b\u0085c", "a\u2028b\u0085c"],
    ] as const
  ) await assertLines(input, expected);
});

Deno.test("readLines() skips a byte order mark at the start of the text, and keeps others", async () => {
  for (
    const [input, ...expected] of [
      [concatenate(MARK, "a\n", MARK, "b\n"), "a", "\ufeffb"],
      [concatenate(MARK, "\r\na"), "", "a"],
      [concatenate(MARK, MARK, "a", MARK, "b"), "\ufeffa\ufeffb"],
      [MARK],
      [concatenate(MARK, text(LINE_BYTES_MAX), "\n"), text(LINE_BYTES_MAX)],
    ] as const
  ) await assertLines(input, expected);
});

Deno.test("readLines() yields a problem for a line that is not UTF-8, and the lines after it", async () => {
  const problem: Line = ["expected well-formed UTF-8"];
  const three = concatenate(NOT_UTF8, "\nb\r\n", NOT_UTF8);
  await assertLines(three, [problem, "b", problem]);
  // A part of a byte order mark is not skipped.
  await assertLines(MARK.subarray(0, 1), [problem]);
  await assertLines(concatenate(MARK.subarray(0, 2), "\na"), [problem, "a"]);
});

Deno.test("readLines() counts the bytes of a line without its end", async () => {
  const longest = "é".repeat(LINE_BYTES_MAX / 2);
  for (const end of ["\n", "\r\n", "\r", ""]) {
    await assertLines(longest + end, [longest]);
    for (const more of [1, 2, LINE_BYTES_MAX, 300_000]) {
      const line = text(LINE_BYTES_MAX + more);
      await assertLines(line + end, [[TOO_LONG(line.length)]]);
    }
  }
});

Deno.test("readLines() counts the CR at the end of a discarded part unless it ends the line", async () => {
  const part = text(LINE_BYTES_MAX + 2);
  for (
    const [line, bytes] of [
      [`${part}\r`, part.length],
      [`${part}\r${part}\r`, 2 * part.length + 1],
    ] as const
  ) {
    for (const size of [part.length, part.length + 1, part.length + 2]) {
      const lines = linesOf(readOf(toBytes(`${line}\nb`), () => size));
      assert.deepEqual(await lines, [[TOO_LONG(bytes)], "b"]);
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

Deno.test("readLines() agrees with a simple model on random texts and reads", async () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  const near = () => text(LINE_BYTES_MAX + random.int(-2, 3));
  for (let round = 0; round < 300; round++) {
    const parts = Array.from(
      { length: random.int(0, 12) },
      () =>
        random.chance(0.1)
          ? random.pick([near(), near(), text(random.int(0, 300_000))])
          : random.pick(["\n", "\r\n", "\r", MARK, "a", "竹", NOT_UTF8]),
    );
    const bytes = concatenate(...parts);
    const sizes = random.pick([[1, 8], [1, 40_000], [LINE_BYTES_MAX, 300_000]]);
    const [min = 1, max = 1] = bytes.length < 1_000 ? [1, 4] : sizes;
    assert.deepEqual(
      await linesOf(readOf(bytes, () => random.int(min, max))),
      modelLines(bytes),
      `round ${round}, SEED=${seed}`,
    );
  }
});
