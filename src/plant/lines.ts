import { LINE_BYTES_MAX } from "../limits.ts";

const LF = 0x0a;

/**
 * Splits the chunks of a file into lines, without their LF. Ends at a line above
 * {@link LINE_BYTES_MAX}, which may be incomplete: it needs no more memory.
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  let rest = new Uint8Array();
  for await (const chunk of chunks) {
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    let from = 0;
    for (let end; (end = bytes.indexOf(LF, from)) !== -1; from = end + 1) {
      yield bytes.subarray(from, end);
    }
    rest = bytes.subarray(from);
    if (rest.length > LINE_BYTES_MAX) break;
  }
  if (rest.length > 0) yield rest;
}
