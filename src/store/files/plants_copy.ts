import { basename, dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { StoreErrorKind } from "../../store_error.ts";
import { statOrUndefined } from "./file_system.ts";
import { openToRead, WAL_SUFFIX } from "./inspect.ts";
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
 * Beside a service that writes, the copy may be torn.
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
      // Then closing it replays and deletes the log, which may have damaged pages,
      // too. A checkpoint would read the schema in it first.
      database.prepare("PRAGMA schema_version").get();
    }
    replacePages(copy, pages);
    return copy;
  } catch (error) {
    Deno.removeSync(directory, { recursive: true });
    throw error;
  }
}

/**
 * Returns whether a store is so damaged that only a copy with new pages can be read.
 * @param kind why it cannot be opened
 */
export function isDamagedStore(path: string, kind: StoreErrorKind): boolean {
  switch (kind) {
    case "corrupt":
      return true;
    case "foreign log":
      // A header that can be read says that the log is of another database.
      return hasPlantsPage(path) && !hasHeader(path);
    case "path":
      return hasPlantsPage(path) && !isDatabase(path);
    default:
      return false;
  }
}

/** Returns whether a file begins as a database (SQLite file format, section 1.3). */
function hasHeader(path: string): boolean {
  using file = Deno.openSync(path);
  const header = new Uint8Array(20);
  file.readSync(header);
  const magic = new TextDecoder().decode(header.subarray(0, 16));
  const versions = header.subarray(18);
  return magic === "SQLite format 3\0" &&
    versions.every((version) => version === 1 || version === 2);
}

function isDatabase(path: string): boolean {
  try {
    using database = openToRead(path);
    database.prepare("SELECT name FROM sqlite_master").all();
    return true;
  } catch {
    return false;
  }
}

/** Returns whether a file has an index page (section 1.6) in the place of the plants. */
function hasPlantsPage(path: string): boolean {
  if (!statOrUndefined(path)?.isFile) return false;
  using file = Deno.openSync(path);
  file.seekSync((PLANTS_PAGE - 1) * PAGE_BYTES, Deno.SeekMode.Start);
  const header = new Uint8Array(8);
  if (file.readSync(header) !== header.length) return false;
  const view = new DataView(header.buffer);
  const endOfCells = header.length + 2 * view.getUint16(3);
  return INDEX_PAGES.includes(view.getUint8(0)) &&
    endOfCells <= view.getUint16(5);
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
