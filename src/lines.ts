import { decodeUtf8 } from "./body.ts";
import { ERROR, Refusal } from "./errors.ts";
import { BODY_BYTES_MAX } from "./limits.ts";

/** How much is read at one time; the longest line fits many times. */
const CHUNK_BYTES = 256 * 1024;

const LF = 0x0a;
const CR = 0x0d;

/** Reads some bytes, as `Deno.FsFile` does; `null` stands for the end. */
export type Read = (buffer: Uint8Array) => Promise<number | null>;

const NOT_UTF8 = new Refusal(
  ERROR.NOT_UTF8,
  "expected well-formed UTF-8, got bytes that are not",
);

/**
 * The lines of a text, many at a time: without their ends, LF or CRLF, each as
 * a string, or as the reason why it is none. Lines above
 * {@link BODY_BYTES_MAX} are passed over without being kept.
 */
export async function* readLines(
  read: Read,
): AsyncGenerator<readonly (string | Refusal)[]> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  /** How much of the buffer is the begin of a line whose end is not read. */
  let kept = 0;
  /** How much of that line is gone already, because it is too long. */
  let passed = 0;
  for (;;) {
    const count = await read(buffer.subarray(kept));
    const bytes = buffer.subarray(0, kept + (count ?? 0));
    const lines: (string | Refusal)[] = [];
    let from = 0;
    for (
      let end = bytes.indexOf(LF, kept);
      end !== -1;
      end = bytes.indexOf(LF, from)
    ) {
      lines.push(toLine(bytes.subarray(from, end), passed));
      from = end + 1;
      passed = 0;
    }
    if (count === null) {
      if (kept + passed > 0) lines.push(toLine(bytes, passed));
      yield lines;
      return;
    }
    yield lines;
    kept = bytes.length - from;
    // One more byte may be the CR of a line that is just short enough.
    if (kept > BODY_BYTES_MAX + 1) {
      passed += kept;
      kept = 0;
    } else if (from > 0) {
      buffer.copyWithin(0, from, from + kept);
    }
  }
}

function toLine(bytes: Uint8Array, passed: number): string | Refusal {
  const isCrLf = bytes.at(-1) === CR;
  const line = isCrLf ? bytes.subarray(0, -1) : bytes;
  const length = passed + line.length;
  if (length > BODY_BYTES_MAX) {
    return new Refusal(
      ERROR.BODY_TOO_LARGE,
      `expected at most ${BODY_BYTES_MAX} bytes, got ${length}`,
    );
  }
  const text = decodeUtf8(line);
  return text instanceof Refusal ? NOT_UTF8 : text;
}
