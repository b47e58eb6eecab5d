import { basename } from "node:path";
import { StoreError } from "../store_error.ts";
import { lstatOrUndefined, SHM_SUFFIX, WAL_SUFFIX } from "./inspect.ts";

/**
 * The files of an open store. SQLite continues to write to a deleted file, so they
 * are verified. A store is lost until a restart if a file is missing or is another
 * file. Any other error may pass.
 */
export class WatchedFiles {
  readonly #path: string;
  readonly #database: Deno.FileInfo | undefined;
  /** The files beside the database, by path. */
  readonly #sidecars: ReadonlyMap<string, Deno.FileInfo | undefined>;
  /** Size of the database when it was last verified. */
  databaseBytes = 0;

  /**
   * @param path of a database that has just been opened
   * @param database the file at the path before it was opened
   */
  constructor(path: string, database: Deno.FileInfo | undefined) {
    this.#path = path;
    this.#database = database;
    this.#sidecars = new Map(
      [path + WAL_SUFFIX, path + SHM_SUFFIX]
        .map((file) => [file, lstatOrUndefined(file)]),
    );
  }

  /**
   * Verifies the database. A link in its place is another file: SQLite continues
   * with the write-ahead log at the old path.
   * @throws {StoreError} if it is lost
   * @throws the error of the runtime if it cannot be examined
   */
  verifyDatabase(): void {
    const found = lstatOrUndefined(this.#path);
    if (found === undefined) throw lost("it was deleted or moved");
    if (!isSameFile(found, this.#database)) throw lost("it was replaced");
    this.databaseBytes = found.size;
  }

  /**
   * Verifies all files as {@link verifyDatabase}. This is too expensive after each
   * commit: since Linux 6.13, the next write of the write-ahead log updates its times
   * if they have been read. Each commit took a third longer.
   */
  verifyAll(): void {
    this.verifyDatabase();
    for (const [path, file] of this.#sidecars) {
      // Both are beside every database that Deno has open.
      if (file === undefined) {
        throw new StoreError(
          "wrong store",
          "Deno has opened another store in its place",
        );
      }
      if (!isSameFile(lstatOrUndefined(path), file)) {
        throw lost(`its ${basename(path)} was deleted or replaced`);
      }
    }
  }
}

/** Returns whether both are the same file, or both absent. */
export function isSameFile(
  one: Deno.FileInfo | undefined,
  other: Deno.FileInfo | undefined,
): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}

function lost(how: string): StoreError {
  return new StoreError("lost", how);
}
