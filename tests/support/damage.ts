/** Changes files of stores as other programs and accidents do. */
import { DatabaseSync } from "node:sqlite";

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
export const INDEX_LEAF = 0x0a;
