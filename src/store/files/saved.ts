/**
 * Files with the plants of a lost store, beside it: `NAME.rescued-TIME.jsonl`,
 * and `….jsonl.partial` while one is written. Their plants may not be in the
 * store.
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
export const IMPORTED_SUFFIX = ".imported";

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
 * Returns the saved files of a store that are not imported, the oldest first,
 * and those that are being written. They are beside the path, or beside what it
 * leads to.
 * @param path the database file of the store, or a link to it
 * @throws {FileError} if a directory cannot be listed
 */
export function savedFilesOf(path: string): readonly string[] {
  const real = resolveLinks(path);
  return (isLink(path) ? [path, real] : [real]).flatMap(savedBeside);
}

function savedBeside(store: string): string[] {
  const prefix = basename(store) + PREFIX;
  const directory = dirname(store);
  try {
    if (!statOrUndefined(directory)?.isDirectory) return [];
    return [...Deno.readDirSync(directory)].map(({ name }) => name)
      .filter((name) => name.startsWith(prefix))
      .filter((name) => isComplete(name) || name.endsWith(PARTIAL_SUFFIX))
      .toSorted().map((name) => join(directory, name));
  } catch (error) {
    const { problem, message } = toFileError(error);
    throw new FileError(problem, `cannot list ${directory}: ${message}`);
  }
}

/** Returns whether a saved file has all plants of the lost store. */
export function isComplete(saved: string): boolean {
  return saved.endsWith(SUFFIX);
}

/**
 * Returns the saved file of a store that another path leads to.
 * @throws {FileError} or the error of Deno if the files cannot be examined
 */
export function findSavedFile(path: string, other: string): string | undefined {
  const file = statOrUndefined(other);
  return file && savedFilesOf(path)
    .find((saved) => isSameFile(file, statOrUndefined(saved)));
}

/** Returns whether a saved file was deleted, and not imported. */
export function isDeleted(saved: string): boolean {
  try {
    return [saved, saved + IMPORTED_SUFFIX]
      .every((path) => statOrUndefined(path) === undefined);
  } catch {
    // Another copy is not needed while it cannot be examined.
    return false;
  }
}

/**
 * Renames a saved file whose plants are all in the store now.
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
