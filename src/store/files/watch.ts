import { basename } from "node:path";
import { type FileError, toFileError } from "../../files/file_error.ts";
import {
  isSameFile,
  lstatOrUndefined,
  resolveLinks,
  statOrUndefined,
} from "../../files/file_system.ts";
import { DatabaseError } from "./database_error.ts";
import { SHM_SUFFIX, WAL_SUFFIX } from "./inspect.ts";

/** Files that belong to an open database, beside it. */
const SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX];

/**
 * The files of an open embedded store, checked for deletion and replacement:
 * SQLite continues to write to a deleted file. A store is lost until a restart if
 * a file is missing or is another file, or if the database became shorter. Any
 * other error of a check may pass.
 */
export class WatchedFiles {
  /** The configured path. */
  readonly #path: string;
  /** The path that SQLite has opened: the configured one may be a link. */
  readonly #real: string;
  #bytes = 0;
  readonly #database: Deno.FileInfo | undefined;
  /** The files beside the database, by path. */
  readonly #sidecars: ReadonlyMap<string, Deno.FileInfo | undefined>;
  #loss: DatabaseError | undefined;

  /**
   * @param path absolute, of a database that has just been opened
   * @param database the file at the path before it was opened
   */
  constructor(path: string, database: Deno.FileInfo | undefined) {
    this.#path = path;
    this.#database = database;
    const real = resolveLinks(path);
    this.#real = real;
    this.#sidecars = new Map(
      SUFFIXES.map((suffix) => [real + suffix, statOrUndefined(real + suffix)]),
    );
  }

  /** The loss, if a check has found one. */
  get loss(): DatabaseError | undefined {
    return this.#loss;
  }

  /** Size of the database when it was last examined. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Checks the database; returns the loss, or why it cannot be examined. */
  checkDatabase(): DatabaseError | FileError | undefined {
    return this.#examine(() => this.#findDatabaseLoss());
  }

  /**
   * Checks all files; returns the loss, or why they cannot be examined. Too
   * expensive after each commit: since Linux 6.13, the first write after reading
   * the times of the log updates them, which made each commit a third slower.
   */
  check(): DatabaseError | FileError | undefined {
    return this.#examine(() =>
      this.#findDatabaseLoss() ?? this.#findSidecarLoss()
    );
  }

  /**
   * A database is also lost if it was moved and a link leads to it: SQLite
   * continues with the log at the old path. So the file itself is examined, too.
   */
  #findDatabaseLoss(): DatabaseError | undefined {
    const found = statOrUndefined(this.#path);
    if (found === undefined) return lost("it was deleted or moved");
    if (!this.#isDatabase(found)) return lost("it was replaced");
    const isInPlace = this.#isDatabase(lstatOrUndefined(this.#real));
    if (!isInPlace) {
      return lost("it was moved, and a link to it is in its place");
    }
    return this.#findCut(found.size);
  }

  /**
   * SQLite does not notice a database that became shorter, as by `cp` onto it. A
   * checkpoint before the next check hides it. Only VACUUM shortens a database,
   * and Deno KV does not use that.
   */
  #findCut(bytes: number): DatabaseError | undefined {
    if (bytes < this.#bytes) return new DatabaseError("cut");
    this.#bytes = bytes;
    return undefined;
  }

  #findSidecarLoss(): DatabaseError | undefined {
    for (const [path, file] of this.#sidecars) {
      if (!isSameFile(statOrUndefined(path), file)) {
        return lost(`its ${basename(path)} was deleted or replaced`);
      }
    }
    return undefined;
  }

  #isDatabase(file: Deno.FileInfo | undefined): boolean {
    return isSameFile(file, this.#database);
  }

  #examine(
    findLoss: () => DatabaseError | undefined,
  ): DatabaseError | FileError | undefined {
    try {
      this.#loss ??= findLoss();
      return this.#loss;
    } catch (error) {
      return toFileError(error);
    }
  }
}

function lost(how: string): DatabaseError {
  return new DatabaseError("lost", how);
}
