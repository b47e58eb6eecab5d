/** Files that are no stores, and stores as programs and accidents leave them. */
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
  content = new Uint8Array(bytes).fill(0xaa),
): void {
  using file = Deno.openSync(path, { write: true });
  file.seekSync(offset, Deno.SeekMode.Start);
  file.writeSync(content);
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

/**
 * Writes random bytes over pages with plants, or somewhere in them; returns what
 * was in these pages.
 */
export function destroyPages(
  path: string,
  count: number,
  random: Random,
  bytes = PAGE_BYTES,
): string[] {
  const pages = pagesOf(path);
  return Array.from({ length: count }, () => {
    const [page] = pages.splice(random.int(0, pages.length - 1), 1);
    if (page === undefined) throw new RangeError("no page is left");
    const offset = page.offset + random.int(0, PAGE_BYTES - bytes);
    const content = new Uint8Array(bytes).map(() => random.int(0, 255));
    overwrite(path, offset, bytes, content);
    return page.text;
  });
}

/** Writes a page with plants over the one before it; returns whether there is one. */
export function repeatPage(path: string, index: number): boolean {
  const [before, page] = pagesOf(path).slice(index, index + 2);
  if (before === undefined || page === undefined) return false;
  const { offset } = page;
  const bytes = Deno.readFileSync(path).subarray(offset, offset + PAGE_BYTES);
  overwrite(path, before.offset, PAGE_BYTES, bytes);
  return true;
}

/** Writes a text of several pages of a database. */
export function writeText(path: string): void {
  Deno.writeTextFileSync(path, "Monstera\n".repeat(1_000));
}

/** Makes the plants of a store such as a newer Deno would write. */
export function makeNewer(path: string): void {
  // V8 refuses a value with a version above its own.
  execute(path, "UPDATE kv SET v = CAST(x'FF7F' || substr(v, 3) AS BLOB)");
}

/** Makes a store such as the previous version closed it, or as a backup is. */
export function leaveWalMode(path: string): void {
  execute(path, "PRAGMA journal_mode = DELETE");
}

/**
 * Leaves the journal of a killed process beside a store.
 * @param change a statement whose change is in the store, larger than a page
 */
export function leaveJournal(path: string, change: string): void {
  leaveWalMode(path);
  using database = new DatabaseSync(path);
  database.exec(`PRAGMA cache_size = 1; BEGIN; ${change}`);
  for (const suffix of ["", "-journal"]) {
    Deno.copyFileSync(path + suffix, `${path}.killed${suffix}`);
  }
  database.close();
  for (const suffix of ["", "-journal"]) {
    Deno.renameSync(`${path}.killed${suffix}`, path + suffix);
  }
}
