import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileFault, messageOf } from "./faults.ts";
import { StartError } from "./start_error.ts";

/** What SQLite puts beside the file: its log of writes, and an index of that. */
const COMPANIONS = ["-wal", "-shm"];

/** A file by what tells it from another one of the same name. */
interface Identity {
  readonly path: string;
  readonly inode: number | null;
  readonly device: number;
}

/** The files of an open embedded store. */
export class OpenedFile {
  /** As it was named; that may be a link. */
  readonly #named: Identity;
  /** As SQLite knows it, and what SQLite keeps beside it. */
  readonly #real: Identity;
  readonly #companions: readonly Identity[];
  /** Whether nothing stood in its place when that was looked at last. */
  #isAway = false;
  /** Set once another file stands in the place of the open one. */
  #replaced: string | undefined;
  /** What the last look found wrong beside the file. */
  #problem: string | undefined;

  constructor(path: string) {
    this.#named = identify(path);
    this.#real = identify(Deno.realPathSync(path));
    this.#companions = COMPANIONS.map((ending) => this.#real.path + ending)
      .filter((path) => statOrUndefined(path) !== undefined)
      .map(identify);
  }

  /**
   * Throws where a path no longer leads to the file that is open: SQLite goes
   * on writing into a deleted file, where nobody will find a plant. A file that
   * is only moved away for a while loses nothing.
   */
  assertInPlace(): void {
    const { path } = this.#named;
    if (this.#replaced === undefined) {
      const place = placeOf(this.#named);
      if (place === "empty") {
        const companions = this.#companions.map(({ path }) => path);
        this.#isAway = true;
        throw new Error(
          `${path} was deleted while it was open: put that very file back, ` +
            `or stop, move ${companions.join(" and ")} away and restore a ` +
            "backup",
        );
      }
      if (this.#isAway) {
        // What lay beside it may be gone.
        this.#isAway = false;
        this.look();
      }
      if (place === "taken") {
        this.#replaced = `${path} was replaced while it was open: ` +
          `restart to open what is there now${this.#setCompanionsAside()}`;
      }
    }
    const problem = this.#replaced ?? this.#problem;
    if (problem !== undefined) throw new Error(problem);
  }

  /**
   * Looks at what SQLite keeps beside the file, for {@link assertInPlace}. Not
   * after each commit: since Linux 6.13 a file whose times were asked for gets
   * new ones with its next write, which made each commit a third slower.
   */
  look(): void {
    try {
      const lost = this.#companions.find((it) => placeOf(it) !== "its own");
      this.#problem = lost &&
        `${lost.path} was deleted or replaced while it was open: restart by ` +
          "SIGTERM or Ctrl-C, which saves the plants in it";
    } catch (error) {
      this.#problem = messageOf(error);
    }
  }

  /**
   * Gives what SQLite keeps beside the file names that it does not look for:
   * else the next start would write that into the file which stands here now.
   * @returns what was done, for the message
   */
  #setCompanionsAside(): string {
    const now = new Date().toISOString().replaceAll(":", "-");
    const done = this.#companions.map((companion) => {
      const aside = `${companion.path}.${now}`;
      try {
        if (placeOf(this.#real) !== "taken") return "";
        if (placeOf(companion) !== "its own") return "";
        Deno.renameSync(companion.path, aside);
        return `; ${companion.path} of the old one is now ${aside}`;
      } catch {
        return "";
      }
    });
    return done.join("");
  }
}

function identify(path: string): Identity {
  const { ino, dev } = Deno.statSync(path);
  return { path, inode: ino, device: dev };
}

/**
 * What stands at the path of a file: the file itself, another one, or nothing.
 * @throws {Error} where it cannot be told
 */
function placeOf(
  { path, inode, device }: Identity,
): "its own" | "taken" | "empty" {
  try {
    const { ino, dev } = Deno.statSync(path);
    return ino === inode && dev === device ? "its own" : "taken";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "empty";
    throw error;
  }
}

/**
 * Refuses what is no store yet: opening it would make one of it.
 * @throws {StartError} that says what is wrong with it
 */
export function assertStoreExists(path: string): void {
  const file = statOrUndefined(path);
  if (file === undefined) {
    throw new StartError(
      `there is no file ${path}: name the store with --kv or KV_PATH`,
    );
  }
  assertPlainFile(path, file);
  if (file.size === 0 || !hasKvTable(path)) throw notAStore(path);
}

/**
 * Refuses what SQLite would take for a store, or fail on later.
 * @throws {StartError} that says what is wrong with it
 */
export function assertStoreFile(path: string): void {
  const file = statOrUndefined(path);
  if (file !== undefined) assertPlainFile(path, file);
  // SQLite would throw such a log away.
  const log = `${path}-wal`;
  if ((file?.size ?? 0) === 0 && (statOrUndefined(log)?.size ?? 0) > 0) {
    throw new StartError(
      `${path} is gone, but ${log} still has plants of it: put it back, or ` +
        "move that away",
    );
  }
  if (file === undefined) {
    const folder = dirname(path);
    if (statOrUndefined(folder)?.isDirectory) return;
    throw new StartError(
      `there is no folder ${folder}: make it, or name another file with ` +
        "--kv or KV_PATH",
    );
  }
  if (file.size > 0 && !hasKvTable(path)) throw notAStore(path);
}

function assertPlainFile(path: string, file: Deno.FileInfo): void {
  if (file.isDirectory) {
    throw new StartError(
      `${path} is a folder: name a file in it with --kv or KV_PATH`,
    );
  }
  if (!file.isFile) throw notAStore(path);
}

function notAStore(path: string): StartError {
  return new StartError(
    `${path} is no Deno KV store: name another file with --kv or KV_PATH`,
  );
}

/** @throws {StartError} where it cannot be told whether there is a file */
function statOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.NotADirectory) return undefined;
    throw new StartError(`cannot look at ${path}: ${fileFault(error)}`);
  }
}

function hasKvTable(path: string): boolean {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      return database.prepare(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kv'",
      ).get() !== undefined;
    } finally {
      database.close();
    }
  } catch (error) {
    // Anything else, such as a lock, is for the opening itself to report.
    return !(error instanceof Error && /not a database/.test(error.message));
  }
}
