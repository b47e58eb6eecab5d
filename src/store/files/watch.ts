import { basename } from "node:path";
import { toFileError } from "../../files/file_error.ts";
import { syncDirectory } from "../../files/publish.ts";
import { SHM_SUFFIX, WAL_SUFFIX } from "./inspect.ts";
import {
  isSameFile,
  lstatOrUndefined,
  nameAside,
  resolveLinks,
  statOrUndefined,
} from "../../files/file_system.ts";

/** A loss of content: the database is still in its place, but useless. */
const CUT = "it was cut";

/** Files that belong to an open database, beside it. */
const SUFFIXES = [WAL_SUFFIX, SHM_SUFFIX];

/**
 * The files of an open embedded store, checked for deletion and replacement:
 * SQLite continues to write to a deleted file. A store is lost until a restart if
 * a file is missing, is another file, or was cut. Any other error of a check may
 * pass.
 */
export class WatchedFiles {
  /** The configured path. */
  readonly path: string;
  /** The path that SQLite has opened: the configured one may be a link. */
  readonly real: string;
  /** Size of the database when it was last examined. */
  #bytes = 0;
  readonly #database: Deno.FileInfo | undefined;
  /** The files beside the database, by path. */
  readonly #sidecars: ReadonlyMap<string, Deno.FileInfo | undefined>;
  #loss: string | undefined;

  /**
   * @param path absolute, of a database that has just been opened
   * @param database the file at the path before it was opened
   */
  constructor(path: string, database: Deno.FileInfo | undefined) {
    this.path = path;
    this.#database = database;
    const real = resolveLinks(path);
    this.real = real;
    this.#sidecars = new Map(
      SUFFIXES.map((suffix) => [real + suffix, statOrUndefined(real + suffix)]),
    );
  }

  /** How the store was lost, if a check has found that. */
  get loss(): string | undefined {
    return this.#loss;
  }

  /** Whether the database may lack plants, even if no read fails. */
  get isCut(): boolean {
    return this.#loss === CUT;
  }

  /** Checks the database; returns the loss, or why it cannot be examined. */
  checkDatabase(): string | undefined {
    return this.#examine(() => this.#findDatabaseLoss());
  }

  /**
   * Checks all files; returns the loss, or why they cannot be examined. Too
   * expensive after each commit: since Linux 6.13, the first write after reading
   * the times of the log updates them, which made each commit a third slower.
   */
  check(): string | undefined {
    return this.#examine(() =>
      this.#findDatabaseLoss() ?? this.#findSidecarLoss()
    );
  }

  /**
   * A database is also lost if it was moved and a link leads to it: SQLite
   * continues with the log at the old path. So the file itself is examined, too.
   */
  #findDatabaseLoss(): string | undefined {
    const found = statOrUndefined(this.path);
    if (found === undefined) return "it was deleted or moved";
    if (!this.#isDatabase(found)) return "it was replaced";
    if (!this.#isDatabase(lstatOrUndefined(this.real))) return "it was moved";
    return this.#findCut(found.size);
  }

  /**
   * SQLite does not notice a cut, as by `cp` onto the database. A checkpoint
   * before the next check hides it. Only VACUUM cuts a database, and Deno KV does
   * not use that.
   */
  #findCut(bytes: number): string | undefined {
    if (bytes < this.#bytes) return CUT;
    this.#bytes = bytes;
    return undefined;
  }

  #isDatabase(file: Deno.FileInfo | undefined): boolean {
    return isSameFile(file, this.#database);
  }

  /**
   * Renames what would harm a store in place of the lost one: a cut database,
   * and the log of one that is not in its place, which SQLite would replay into
   * another file, with its index. Call it when the plants are saved. Ignores
   * errors: most of it is recognised later.
   */
  setAside(): void {
    try {
      const isHere = this.#isDatabase(lstatOrUndefined(this.real));
      if (isHere && !this.isCut) return;
      const files = new Map([[this.real, this.#database], ...this.#sidecars]);
      const aside = nameAside(this.real);
      // The index before the log: alone, it would refuse another store.
      for (const [path, file] of [...files].toReversed()) {
        const found = lstatOrUndefined(path);
        if (found !== undefined && isSameFile(found, file)) {
          // SQLite finds a log by its name.
          Deno.renameSync(path, aside + path.slice(this.real.length));
        }
      }
      syncDirectory(this.real);
    } catch {
      // An import or a start that cannot use what is left says so.
    }
  }

  #findSidecarLoss(): string | undefined {
    for (const [path, file] of this.#sidecars) {
      if (!isSameFile(statOrUndefined(path), file)) {
        return `its ${basename(path)} was deleted or replaced`;
      }
    }
    return undefined;
  }

  #examine(findLoss: () => string | undefined): string | undefined {
    try {
      this.#loss ??= findLoss();
      return this.#loss;
    } catch (error) {
      return toFileError(error).message;
    }
  }
}
