/** What other programs and accidents do to the files of a store. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { entriesIn } from "./plants.ts";

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

/**
 * Gives the plants of some ids in a store an encoding that Deno cannot decode. All
 * plants must still be readable.
 */
export async function makeUndecodable(
  path: string,
  ids: readonly bigint[],
): Promise<void> {
  const entries = await entriesIn(path);
  for (const id of ids) {
    const index = entries.findIndex(({ 0: key }) => key[1] === id);
    assert.ok(index >= 0, `no plant ${id}`);
    const key = `SELECT k FROM kv ORDER BY k LIMIT 1 OFFSET ${index}`;
    execute(path, `UPDATE kv SET v_encoding = 9 WHERE k = (${key})`);
  }
}

export const PAGE_BYTES = 4_096;

/** Returns the pages of a table or an index, counted from 1: its root, then others. */
export function pagesOf(path: string, name: string): number[] {
  using database = new DatabaseSync(path);
  const pages = database.prepare("SELECT pageno FROM dbstat WHERE name = ?");
  return pages.all(name).map(({ pageno }) => Number(pageno));
}

/** Overwrites a page, counted from 1 as SQLite does. */
export function destroyPage(path: string, page: number): void {
  overwrite(path, (page - 1) * PAGE_BYTES, PAGE_BYTES);
}

/** The index of the queue of Deno KV, which Deno reads when it opens a store. */
export const QUEUE_INDEX = "sqlite_autoindex_queue_1";

/** The type of a page with keys and values, in the SQLite file format. */
const INDEX_LEAF = 0x0a;

/** A page with keys and values. */
export interface Leaf {
  /** Counted from 1. */
  readonly page: number;
  /** Its bytes as characters. */
  readonly text: string;
}

/** Returns the pages of a store that have keys and values. */
export function leavesOf(path: string): Leaf[] {
  const bytes = Deno.readFileSync(path);
  const latin1 = new TextDecoder("latin1");
  const leaves: Leaf[] = [];
  for (let offset = 0; offset < bytes.length; offset += PAGE_BYTES) {
    const content = bytes.subarray(offset, offset + PAGE_BYTES);
    if (content[0] !== INDEX_LEAF) continue;
    const page = offset / PAGE_BYTES + 1;
    leaves.push({ page, text: latin1.decode(content) });
  }
  return leaves;
}

/** The write lock of a store, held until it is disposed of. */
export class StoreLock implements Disposable {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file);
    // The program may be finishing a write of its own.
    this.#database.exec("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE");
  }

  /** Releases the lock before the end of its block. */
  release(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}
