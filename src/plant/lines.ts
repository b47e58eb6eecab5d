/** The lines of an import: one NewPlant each. */
import { LINE_BYTES_MAX } from "../limits.ts";
import { decodeUtf8 } from "./utf8.ts";

/**
 * Bytes to read at one time. An import creates the plants of one read together:
 * at most 7,000, which wait in memory, and usually enough for full commits.
 */
export const READ_BYTES = 128 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Reads bytes into a buffer, as `Deno.FsFile.read`; `null` at the end. */
export type Read = (buffer: Uint8Array) => Promise<number | null>;

/** Why a line has no text. */
export interface LineProblem {
  readonly problem: string;
}

/**
 * Reads the lines of a text, many at a time, without their line breaks (LF or
 * CRLF) and without a byte order mark at the start of the text. A line above
 * {@link LINE_BYTES_MAX} yields a problem, and is not kept in memory.
 */
export async function* readLines(
  read: Read,
): AsyncGenerator<readonly (string | LineProblem)[]> {
  const buffer = new Uint8Array(LINE_BYTES_MAX + 1 + READ_BYTES);
  /** Length of the incomplete line at the start of the buffer. */
  let kept = 0;
  /** Bytes of that line that were discarded, because it is too long. */
  let discarded = 0;
  let isAtStart = true;
  for (;;) {
    const count = await read(buffer.subarray(kept, kept + READ_BYTES));
    const bytes = buffer.subarray(0, kept + (count ?? 0));
    const lines: (string | LineProblem)[] = [];
    let from = 0;
    if (isAtStart && bytes.length >= BYTE_ORDER_MARK.length) {
      isAtStart = false;
      if (BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte)) {
        from = BYTE_ORDER_MARK.length;
      }
    }
    for (
      let end = bytes.indexOf(LF, Math.max(from, kept));
      end !== -1;
      end = bytes.indexOf(LF, from)
    ) {
      lines.push(decodeLine(bytes.subarray(from, end), discarded));
      from = end + 1;
      discarded = 0;
      isAtStart = false;
    }
    if (count === null && from < bytes.length) {
      lines.push(decodeLine(bytes.subarray(from), discarded));
    }
    yield lines;
    if (count === null) return;
    // Always keep the last byte: it may be the CR of a CRLF.
    const isTooLong = bytes.length - from > LINE_BYTES_MAX + 1;
    const keepFrom = isTooLong ? bytes.length - 1 : from;
    discarded += keepFrom - from;
    buffer.copyWithin(0, keepFrom, bytes.length);
    kept = bytes.length - keepFrom;
  }
}

function decodeLine(
  bytes: Uint8Array,
  discarded: number,
): string | LineProblem {
  const isCrLf = bytes.at(-1) === CR;
  const line = isCrLf ? bytes.subarray(0, -1) : bytes;
  const length = discarded + line.length;
  if (length > LINE_BYTES_MAX) {
    return {
      problem: `expected at most ${LINE_BYTES_MAX} bytes, got ${length}`,
    };
  }
  return decodeUtf8(line) ?? { problem: "expected well-formed UTF-8" };
}
