/** What other programs and accidents do to the files of a store. */
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

/** The write lock of a store, held until it is disposed of. */
export class StoreLock implements Disposable {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file);
    // The program may be finishing a write of its own.
    this.#database.exec("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE");
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }
}
