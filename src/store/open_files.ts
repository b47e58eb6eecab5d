import { basename } from "node:path";
import { errorMessage } from "../messages.ts";
import { LOG_SUFFIX, statOrUndefined } from "./database_file.ts";

/**
 * The files of an open embedded store, checked for deletion and replacement:
 * SQLite continues to write to a deleted file. A problem lasts until a restart.
 */
export class OpenFiles {
  readonly #path: string;
  readonly #logPath: string;
  readonly #database: Deno.FileInfo | undefined;
  readonly #log: Deno.FileInfo | undefined;
  #problem: string | undefined;

  /** @param path absolute, of the database that has just been opened */
  constructor(path: string) {
    this.#path = path;
    this.#logPath = Deno.realPathSync(path) + LOG_SUFFIX;
    this.#database = statOrUndefined(path);
    this.#log = statOrUndefined(this.#logPath);
  }

  /** Checks the database, and returns the problem, if any. */
  checkDatabase(): string | undefined {
    const found = this.#stat(this.#path);
    if (found === undefined) {
      this.#problem ??= "the database file was deleted: do not stop the " +
        "service yet: its plants can still be rescued, see README";
    } else if (!isSameFile(found, this.#database)) {
      this.#problem ??=
        "the database file was replaced: to open the new one, " +
        `stop the service, move ${basename(this.#logPath)} away, and start it`;
    }
    return this.#problem;
  }

  /**
   * Checks the database and its log, and returns the problem, if any. Too
   * expensive after each commit: since Linux 6.13, the first write after reading
   * the times of a file updates them, which made each commit a third slower.
   */
  check(): string | undefined {
    const isLogInPlace = isSameFile(this.#stat(this.#logPath), this.#log);
    if (this.checkDatabase() === undefined && !isLogInPlace) {
      this.#problem = `${basename(this.#logPath)} was deleted or replaced: ` +
        "restart with SIGTERM or Ctrl-C, which saves its plants";
    }
    return this.#problem;
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

/** Returns whether both are the same file, or both absent. */
function isSameFile(
  one: Deno.FileInfo | undefined,
  other: Deno.FileInfo | undefined,
): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}
