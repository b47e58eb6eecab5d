import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { StartError } from "./start_error.ts";

/** What SQLite puts beside the file: its log of writes, and an index of that. */
const COMPANIONS = ["-wal", "-shm"];

/** The file of an open embedded store, by what tells it from a later one. */
export class OpenedFile {
  readonly #path: string;
  readonly #isFile: (path: string) => boolean;
  /** The companions that belong to the open file. */
  readonly #companions: readonly OpenedFile[];
  #isInPlace = true;

  constructor(path: string, companions: readonly string[] = COMPANIONS) {
    const { ino, dev } = Deno.statSync(path);
    this.#path = path;
    this.#isFile = (path) => {
      const file = statOrUndefined(path);
      return file?.ino === ino && file.dev === dev;
    };
    this.#companions = companions
      .map((ending) => path + ending)
      .filter((companion) => statOrUndefined(companion) !== undefined)
      .map((companion) => new OpenedFile(companion, []));
  }

  /**
   * Throws where the path no longer leads to the file that is open: SQLite
   * goes on writing into a deleted file, where nobody will find a plant.
   */
  assertInPlace(): void {
    if (this.#isInPlace && this.#isFile(this.#path)) return;
    if (this.#isInPlace) {
      this.#isInPlace = false;
      // Else the next start would write what they hold into the file that
      // stands here then.
      for (const companion of this.#companions) companion.setAside();
    }
    throw new Error(
      `${this.#path} was deleted or replaced while it was open: restart to ` +
        "open what is there now",
    );
  }

  /** Gives the file a name that SQLite does not look for. */
  setAside(): void {
    if (!this.#isFile(this.#path)) return;
    const aside = `${this.#path}.${new Date().toISOString()}`;
    try {
      Deno.renameSync(this.#path, aside.replaceAll(":", "-"));
    } catch {
      // Where the folder cannot be written to, nothing is gained or lost.
    }
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
  assertNoFolder(path, file);
  if (file.size === 0 || !hasKvTable(path)) throw notAStore(path);
}

/**
 * Refuses what SQLite would take for a store, or fail on later.
 * @throws {StartError} that says what is wrong with it
 */
export function assertStoreFile(path: string): void {
  const file = statOrUndefined(path);
  if (file === undefined) {
    const folder = dirname(path);
    if (statOrUndefined(folder)?.isDirectory) return;
    throw new StartError(
      `there is no folder ${folder}: make it, or name another file with ` +
        "--kv or KV_PATH",
    );
  }
  assertNoFolder(path, file);
  if (file.size > 0 && !hasKvTable(path)) throw notAStore(path);
}

function assertNoFolder(path: string, file: Deno.FileInfo): void {
  if (!file.isDirectory) return;
  throw new StartError(
    `${path} is a folder: name a file in it with --kv or KV_PATH`,
  );
}

function notAStore(path: string): StartError {
  return new StartError(
    `${path} is no Deno KV store: name another file with --kv or KV_PATH`,
  );
}

function statOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch {
    return undefined;
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
