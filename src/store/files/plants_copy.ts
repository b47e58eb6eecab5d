import { basename, dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { statOrUndefined } from "./file_system.ts";
import { WAL_SUFFIX } from "./inspect.ts";
import { PARTIAL } from "./publish.ts";

const PAGE_BYTES = 4_096;

/** The root of the table with the plants: in each store, Deno creates it third. */
const PLANTS_PAGE = 4;

/** The types of the inner pages and leaves of a table without row ids. */
const INDEX_PAGES = [2, 10];

/** The number of pages in a database header (SQLite file format, section 1.3). */
const PAGES_OFFSET = 28;

/**
 * Copies a store that Deno cannot read, although most of its plants can be: all
 * pages that an empty store has, too, such as the header, the queue and the root of
 * the index of expirations, are those of a new store, except the root of the plants.
 * What a service writes meanwhile may be missing.
 * @returns the path of the copy, in a directory of its own beside the store
 * @throws the error of Deno if the copy cannot be made
 */
export async function copyPlants(path: string): Promise<string> {
  const directory = Deno.makeTempDirSync({
    dir: dirname(path),
    prefix: `${basename(path)}.`,
    suffix: PARTIAL,
  });
  const copy = join(directory, basename(path));
  try {
    Deno.copyFileSync(path, copy);
    if (statOrUndefined(path + WAL_SUFFIX) !== undefined) {
      Deno.copyFileSync(path + WAL_SUFFIX, copy + WAL_SUFFIX);
    }
    const empty = join(directory, "empty.db");
    (await Deno.openKv(empty)).close();
    const pages = Deno.readFileSync(empty);
    replacePages(copy, pages);
    {
      using database = new DatabaseSync(copy);
      // The log may have damaged pages, too.
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    }
    replacePages(copy, pages);
    return copy;
  } catch (error) {
    Deno.removeSync(directory, { recursive: true });
    throw error;
  }
}

/**
 * Returns whether the file at a path is a store whose header or schema is damaged:
 * no database for SQLite, but with the root of the plants in its place.
 */
export function hasLostHeader(path: string): boolean {
  if (!statOrUndefined(path)?.isFile || !hasPlantsPage(path)) return false;
  // Without its log, which may have a header of its own, or of another database.
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  try {
    using database = new DatabaseSync(url, { readOnly: true });
    database.prepare("SELECT name FROM sqlite_master").all();
    return false;
  } catch {
    return true;
  }
}

/** Examines the header of the page (SQLite file format, section 1.6). */
function hasPlantsPage(path: string): boolean {
  using file = Deno.openSync(path);
  file.seekSync((PLANTS_PAGE - 1) * PAGE_BYTES, Deno.SeekMode.Start);
  const header = new Uint8Array(8);
  if (file.readSync(header) !== header.length) return false;
  const view = new DataView(header.buffer);
  const type = view.getUint8(0);
  const endOfHeader = header.length + 2 * view.getUint16(3);
  return INDEX_PAGES.includes(type) && endOfHeader <= view.getUint16(5);
}

function replacePages(path: string, pages: Uint8Array<ArrayBuffer>): void {
  using file = Deno.openSync(path, { read: true, write: true });
  const count = Math.floor(file.statSync().size / PAGE_BYTES);
  new DataView(pages.buffer).setUint32(PAGES_OFFSET, count);
  const plants = (PLANTS_PAGE - 1) * PAGE_BYTES;
  file.writeSync(pages.subarray(0, plants));
  file.seekSync(PAGE_BYTES, Deno.SeekMode.Current);
  file.writeSync(pages.subarray(plants + PAGE_BYTES));
}
