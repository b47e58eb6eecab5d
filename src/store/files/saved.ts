/**
 * Files with the plants of a lost store, beside it: `NAME.rescued-TIME.jsonl`.
 * Their plants may not be in the store.
 */
import { basename, dirname, join } from "node:path";
import { STORE_NAME_BYTES_MAX } from "../../limits.ts";
import { FileError, toFileError } from "../../files/file_error.ts";
import {
  isSameFile,
  resolveLinks,
  statOrUndefined,
  timeInName,
} from "../../files/file_system.ts";
import { syncDirectory } from "../../files/publish.ts";

const SUFFIX = ".jsonl";

/** What follows the name when the plants are in a store. */
const IMPORTED_SUFFIX = ".imported";

const encoder = new TextEncoder();

/** Returns the start of the paths of saved files, beside the real store. */
function prefixOf(path: string): string {
  const real = resolveLinks(path);
  const letters = [...basename(real)];
  while (encoder.encode(letters.join("")).length > STORE_NAME_BYTES_MAX) {
    letters.pop();
  }
  return join(dirname(real), `${letters.join("")}.rescued-`);
}

/** Returns the path of a new saved file. */
export function newSavedFile(path: string): string {
  return prefixOf(path) + timeInName() + SUFFIX;
}

/**
 * Returns the saved files of a store that are not imported, oldest first.
 * @param path the database file of the store, or a link to it
 * @throws {FileError} if the directory cannot be listed
 */
export function savedFilesOf(path: string): readonly string[] {
  const prefix = prefixOf(path);
  const directory = dirname(prefix);
  try {
    if (!statOrUndefined(directory)?.isDirectory) return [];
    return [...Deno.readDirSync(directory)]
      .map(({ name }) => join(directory, name))
      .filter((file) => file.startsWith(prefix) && file.endsWith(SUFFIX))
      .toSorted();
  } catch (error) {
    const { problem, message } = toFileError(error);
    throw new FileError(problem, `cannot list ${directory}: ${message}`);
  }
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
 * Renames a saved file whose plants are all in the store now.
 * @returns its new path
 * @throws the error of Deno if it cannot be renamed
 */
export function markImported(saved: string): string {
  const path = saved + IMPORTED_SUFFIX;
  Deno.renameSync(saved, path);
  // A power cut may undo it: the import can be repeated.
  syncDirectory(path);
  return path;
}
