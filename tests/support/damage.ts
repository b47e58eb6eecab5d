/** Changes files of stores as other programs and accidents do. */
import { DatabaseSync } from "node:sqlite";
import type { Random } from "./random.ts";

/** Runs statements on a database that is not open. */
export function execute(path: string, sql: string): void {
  using database = new DatabaseSync(path);
  database.exec(sql);
}

/** Overwrites bytes of a file, to its end if there is no number of bytes. */
export function overwrite(
  path: string,
  offset: number,
  bytes = Deno.statSync(path).size - offset,
): void {
  using file = Deno.openSync(path, { write: true });
  file.seekSync(offset, Deno.SeekMode.Start);
  file.writeSync(new Uint8Array(bytes).fill(0xaa));
}

export const PAGE_BYTES = 4_096;

/** The type of a page with keys and values, in the SQLite file format. */
const INDEX_LEAF = 0x0a;

/** Returns the pages of a store with values of plants, and the text in them. */
function pagesOf(path: string): { offset: number; text: string }[] {
  const bytes = Deno.readFileSync(path);
  return Array.from({ length: bytes.length / PAGE_BYTES }, (_, i) => {
    const offset = i * PAGE_BYTES;
    const text = textOf(bytes.subarray(offset, offset + PAGE_BYTES));
    return { offset, text };
  }).filter(({ text }) => text.includes("name"));
}

/** Returns the cells of a page; between them may be those of earlier states. */
function textOf(page: Uint8Array<ArrayBuffer>): string {
  if (page[0] !== INDEX_LEAF) return "";
  const numbers = new DataView(page.buffer, page.byteOffset);
  const decoder = new TextDecoder("latin1");
  return Array.from({ length: numbers.getUint16(3) }, (_, i) => {
    const start = numbers.getUint16(8 + 2 * i);
    const [high = 0, low = 0] = page.subarray(start);
    const size = high < 128 ? high : (high & 127) << 7 | low;
    return decoder.decode(page.subarray(start, start + 2 + size));
  }).join();
}

/** Overwrites random pages with plants; returns what was on them. */
export function destroyPages(
  path: string,
  count: number,
  random: Random,
): string[] {
  const pages = pagesOf(path);
  return Array.from({ length: count }, () => {
    const [page] = pages.splice(random.int(0, pages.length - 1), 1);
    if (page === undefined) throw new RangeError("no page is left");
    overwrite(path, page.offset, PAGE_BYTES);
    return page.text;
  });
}
