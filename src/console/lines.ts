/** What import and replace read: lines with a NewPlant, or blank. */
import { BODY_BYTES_MAX } from "../limits.ts";
import { fileFailure } from "../operator_error.ts";
import { CR, LF, SPACE, TAB } from "../plant/json.ts";
import {
  formatNewPlant,
  InvalidText,
  type NewPlant,
  parseNewPlant,
  type Plant,
} from "../plant/plant.ts";
import { printLine } from "./output.ts";

/**
 * Maximum size of a line. Every line of an export must fit: it has all 20 characters
 * of an id that its body may have had as `-1e18`. A byte order mark and the CR of a
 * CRLF fit, too.
 */
export const LINE_BYTES_MAX = BODY_BYTES_MAX + 32;

/** Returns stdin. On a terminal, it says what it waits for. */
export function openStdin(): ReadableStream<Uint8Array> {
  if (Deno.stdin.isTerminal()) {
    printLine("reading from the terminal: end the input with Ctrl-D");
  }
  return Deno.stdin.readable;
}

/**
 * Reads the lines of a file, without their LF. Ends at a line above
 * {@link LINE_BYTES_MAX}, and yields what has arrived of it: a long line needs no
 * more memory.
 *
 * It yields the lines of a chunk together. Measured: with one line at a time, an
 * import of plants that are stored already takes a quarter longer.
 * @throws {OperatorError} if the file cannot be read
 */
export async function* readLines(
  input: ReadableStream<Uint8Array>,
  path: string,
): AsyncGenerator<readonly Uint8Array[]> {
  let rest = new Uint8Array();
  try {
    for await (const chunk of input) {
      const bytes = new Uint8Array(rest.length + chunk.length);
      bytes.set(rest);
      bytes.set(chunk, rest.length);
      const lines: Uint8Array[] = [];
      let from = 0;
      for (let end; (end = bytes.indexOf(LF, from)) !== -1; from = end + 1) {
        lines.push(bytes.subarray(from, end));
      }
      rest = bytes.subarray(from);
      const longAt = lines.findIndex(isTooLong);
      if (longAt !== -1) {
        yield lines.slice(0, longAt + 1);
        return;
      }
      yield lines;
      if (isTooLong(rest)) break;
    }
  } catch (error) {
    throw fileFailure(`cannot read ${path}`, error);
  }
  if (rest.length > 0) yield [rest];
}

function isTooLong({ length }: Uint8Array): boolean {
  return length > LINE_BYTES_MAX;
}

/** Returns the plant of a line, or why there is none; `undefined` if it is blank. */
export function parseLine(bytes: Uint8Array): NewPlant | string | undefined {
  if (isTooLong(bytes)) {
    return `expected at most ${LINE_BYTES_MAX} bytes; no line after it is read`;
  }
  const json = withoutByteOrderMark(bytes);
  if (json.every(isBlank)) return undefined;
  // JSON allows the CR of a CRLF.
  const parsed = parseNewPlant(json);
  if (parsed instanceof InvalidText) {
    const { message, position } = parsed;
    return position ? `column ${position.column}: ${message}` : message;
  }
  // A line of at most BODY_BYTES_MAX is itself a body, so its plant fits.
  if (json.length > BODY_BYTES_MAX && !fitsBody(parsed.plant)) {
    return `expected a plant that fits a body of ${BODY_BYTES_MAX} bytes`;
  }
  return parsed;
}

/** Returns whether a create could have stored a plant, under the shortest id. */
function fitsBody(plant: Plant): boolean {
  const shortest = formatNewPlant({ id: 0n, plant });
  return new TextEncoder().encode(shortest).length <= BODY_BYTES_MAX;
}

/**
 * Removes a byte order mark, which is no JSON. Some programs write one at the start
 * of a file, and in joined files it is at the start of any line.
 */
function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return hasMark ? bytes.subarray(3) : bytes;
}

function isBlank(byte: number): boolean {
  return byte === SPACE || byte === TAB || byte === CR;
}
