import { basename, dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { statOrUndefined } from "./file_system.ts";
import { WAL_SUFFIX } from "./inspect.ts";
import { PARTIAL } from "./publish.ts";

const PAGE_BYTES = 4_096;

/** The root of the table with the plants: in each store, Deno creates it third. */
const PLANTS_PAGE = 4;

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

function replacePages(path: string, pages: Uint8Array<ArrayBuffer>): void {
  using file = Deno.openSync(path, { read: true, write: true });
  const count = Math.floor(file.statSync().size / PAGE_BYTES);
  new DataView(pages.buffer).setUint32(PAGES_OFFSET, count);
  const plants = (PLANTS_PAGE - 1) * PAGE_BYTES;
  file.writeSync(pages.subarray(0, plants));
  file.seekSync(PAGE_BYTES, Deno.SeekMode.Current);
  file.writeSync(pages.subarray(plants + PAGE_BYTES));
}
