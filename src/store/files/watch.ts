import { basename } from "node:path";
import { errorMessage } from "../../messages.ts";
import { SHM_SUFFIX, WAL_SUFFIX } from "./inspect.ts";
import {
  isSameFile,
  removeIfPossible,
  resolveLinks,
  statOrUndefined,
} from "./paths.ts";

/** Files that belong to an open database, beside it. */
const SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX];

/**
 * The files of an open embedded store, checked for deletion and replacement:
 * SQLite continues to write to a deleted file. A problem lasts until a restart.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #database: Deno.FileInfo | undefined;
  /** The path that SQLite has opened: the other one may be a link. */
  readonly #real: string;
  /** The files beside the database, by path. */
  readonly #sidecars: ReadonlyMap<string, Deno.FileInfo | undefined>;
  #problem: string | undefined;

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

  /** The problem that a check has found, if any. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Checks the database, and returns the problem, if any. */
  checkDatabase(): string | undefined {
    const found = this.#stat(this.#path);
    if (!isSameFile(found, this.#database)) {
      const accident = found === undefined ? "deleted or moved" : "replaced";
      this.#problem ??= `it was ${accident}`;
    }
    return this.#problem;
  }

  /**
   * Checks all files, and returns the problem, if any. Too expensive after each
   * commit: since Linux 6.13, the first write after reading the times of the log
   * updates them, which made each commit a third slower.
   */
  check(): string | undefined {
    this.checkDatabase();
    for (const [path, file] of this.#sidecars) {
      if (!isSameFile(this.#stat(path), file)) {
        this.#problem ??= `its ${basename(path)} was deleted or replaced`;
      }
    }
    return this.#problem;
  }

  /**
   * Removes the log if another database has replaced its own, since SQLite would
   * replay it into that one. A database that was moved needs it when it is moved
   * back, and one that was deleted cannot be distinguished from that.
   */
  removeOrphans(): void {
    const other = this.#stat(this.#real);
    if (other === undefined || isSameFile(other, this.#database)) return;
    for (const [path, file] of this.#sidecars) {
      if (isSameFile(this.#stat(path), file)) removeIfPossible(path);
    }
  }

  #stat(path: string): Deno.FileInfo | undefined {
    try {
      return statOrUndefined(path);
    } catch (error) {
      this.#problem ??= errorMessage(error);
      return undefined;
    }
  }
}
