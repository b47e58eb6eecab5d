import { basename } from "node:path";
import {
  isSameFile,
  lstatOrUndefined,
  statOrUndefined,
} from "./file_system.ts";
import { StoreError, toStoreError } from "../store_error.ts";
import { SHM_SUFFIX, WAL_SUFFIX } from "./inspect.ts";

/** Files that belong to an open database, beside it. */
const SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX];

/**
 * The files of an open embedded store, checked for deletion and replacement:
 * SQLite continues to write to a deleted file. A store is lost until a restart if
 * a file is missing or is another file. Any other error of a check may pass.
 */
export class WatchedFiles {
  readonly #path: string;
  #bytes = 0;
  readonly #database: Deno.FileInfo | undefined;
  /** The files beside the database, by path. */
  readonly #sidecars: ReadonlyMap<string, Deno.FileInfo | undefined>;
  #loss: StoreError | undefined;

  /**
   * @param path of a database that has just been opened
   * @param database the file at the path before it was opened
   */
  constructor(path: string, database: Deno.FileInfo | undefined) {
    this.#path = path;
    this.#database = database;
    this.#sidecars = new Map(
      SUFFIXES.map((suffix) => [path + suffix, statOrUndefined(path + suffix)]),
    );
  }

  /** The loss, if a check has found one. */
  get loss(): StoreError | undefined {
    return this.#loss;
  }

  /** Size of the database when it was last examined. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Checks the database; returns the loss, or why it cannot be examined. */
  checkDatabase(): StoreError | undefined {
    return this.#examine(() => this.#findDatabaseLoss());
  }

  /**
   * Checks all files; returns the loss, or why they cannot be examined. Too
   * expensive after each commit: since Linux 6.13, the first write after reading
   * the times of the log updates them, which made each commit a third slower.
   */
  check(): StoreError | undefined {
    return this.#examine(() =>
      this.#findDatabaseLoss() ?? this.#findSidecarLoss()
    );
  }

  /**
   * A link in its place is another file: SQLite continues with the log at the old
   * path.
   */
  #findDatabaseLoss(): StoreError | undefined {
    const found = lstatOrUndefined(this.#path);
    if (found === undefined) return lost("it was deleted or moved");
    if (!isSameFile(found, this.#database)) return lost("it was replaced");
    this.#bytes = found.size;
    return undefined;
  }

  #findSidecarLoss(): StoreError | undefined {
    for (const [path, file] of this.#sidecars) {
      if (!isSameFile(statOrUndefined(path), file)) {
        return lost(`its ${basename(path)} was deleted or replaced`);
      }
    }
    return undefined;
  }

  #examine(
    findLoss: () => StoreError | undefined,
  ): StoreError | undefined {
    try {
      this.#loss ??= findLoss();
      return this.#loss;
    } catch (error) {
      return toStoreError(error);
    }
  }
}

function lost(how: string): StoreError {
  return new StoreError("lost", how);
}
