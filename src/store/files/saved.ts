/**
 * Files with the plants of a lost store, beside it: `NAME.rescued-TIME.jsonl`,
 * or the directory `NAME.rescued-TIME.jsonl.ID.partial` while one is written.
 * Their plants may not be in the store.
 */
import { basename, dirname, join } from "node:path";
import { FileError, toFileError } from "../../files/file_error.ts";
import {
  isLink,
  isSameFile,
  resolveLinks,
  statOrUndefined,
  timeInName,
} from "../../files/file_system.ts";
import { PARTIAL_SUFFIX, syncDirectory } from "../../files/publish.ts";
import { STORE_NAME_BYTES_MAX } from "../../limits.ts";

const PREFIX = ".rescued-";
const SUFFIX = ".jsonl";

/** What follows the name when the plants are in a store. */
const IMPORTED_SUFFIX = ".imported";

/** The plants of a lost store. */
export interface Saved {
  /** The file, or the directory of one that is not complete. */
  readonly path: string;
  /** The file with the plants. */
  readonly file: string;
  readonly isComplete: boolean;
}

/**
 * Returns the path of a new saved file, where a start finds it: beside the
 * database that was open, or if the configured path leads elsewhere by now,
 * beside that path.
 * @param path the configured path of the store
 * @param real the database that was open
 */
export function newSavedFile(path: string, real: string): string {
  const store = resolveLinks(path) === real ? real : path;
  return store + PREFIX + timeInName() + SUFFIX;
}

/**
 * Returns what was saved of a store and is not imported: complete files first,
 * the oldest first. They are beside the path, or beside what it leads to.
 * @param path the database file of the store, or a link to it
 * @throws {FileError} if a directory cannot be listed
 */
export function findSaved(path: string): readonly Saved[] {
  const real = resolveLinks(path);
  const saved = (isLink(path) ? [path, real] : [real])
    .flatMap(savedBeside)
    .map((path): Saved =>
      path.endsWith(SUFFIX)
        ? { path, file: path, isComplete: true }
        : { path, file: fileIn(path), isComplete: false }
    );
  return saved.toSorted((one, other) =>
    Number(other.isComplete) - Number(one.isComplete)
  );
}

/** Returns the paths of what was saved beside a store, in their order. */
function savedBeside(store: string): string[] {
  const prefix = basename(store) + PREFIX;
  const directory = dirname(store);
  try {
    if (!statOrUndefined(directory)?.isDirectory) return [];
    return [...Deno.readDirSync(directory)].map(({ name }) => name)
      .filter((name) => name.startsWith(prefix))
      .filter((name) => name.endsWith(SUFFIX) || name.endsWith(PARTIAL_SUFFIX))
      .toSorted().map((name) => join(directory, name));
  } catch (error) {
    const { problem, message } = toFileError(error);
    throw new FileError(problem, `cannot list ${directory}: ${message}`);
  }
}

/** Returns the file in the directory of one that is not complete. */
function fileIn(directory: string): string {
  const name = basename(directory);
  return join(
    directory,
    name.slice(0, name.lastIndexOf(SUFFIX) + SUFFIX.length),
  );
}

/**
 * Returns what was saved of a store in a file, by any of its names.
 * @throws {FileError} or the error of Deno if the files cannot be examined
 */
export function findSavedIn(path: string, file: string): Saved | undefined {
  const found = statOrUndefined(file);
  return found &&
    findSaved(path).find((saved) =>
      isSameFile(found, statOrUndefined(saved.file))
    );
}

/** Returns whether a saved file was deleted, and not imported. */
export function isMissing(saved: string): boolean {
  try {
    return [saved, saved + IMPORTED_SUFFIX]
      .every((path) => statOrUndefined(path) === undefined);
  } catch {
    // Another copy is not needed while it cannot be examined.
    return false;
  }
}

/**
 * Renames a saved file, or its directory, whose plants are all in the store now.
 * @returns its new path
 * @throws the error of Deno if it cannot be renamed
 */
export function markImported(saved: string): string {
  const imported = saved + IMPORTED_SUFFIX;
  Deno.renameSync(saved, imported);
  // A power cut may undo it: the import can be repeated.
  syncDirectory(imported);
  return imported;
}

/** Refuses a store whose name leaves no room for that of a saved file. */
export function refuseLongName(path: string): void {
  for (const store of [path, resolveLinks(path)]) {
    const { length } = new TextEncoder().encode(basename(store));
    if (length <= STORE_NAME_BYTES_MAX) continue;
    throw new FileError(
      "bad path",
      `the name of the store has ${length} bytes, and may have ` +
        STORE_NAME_BYTES_MAX,
    );
  }
}
