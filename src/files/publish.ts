import { basename, dirname, join } from "node:path";
import { FileError, toFileError } from "./file_error.ts";
import { exists, removeIfPossible, sync } from "./file_system.ts";

/** The end of the name of what is not complete. */
export const PARTIAL_SUFFIX = ".partial";

/**
 * Runs a function that writes a file under a name of its own, and removes what
 * is left of it afterwards. The function gives the complete file its final name,
 * so that a kill at any time leaves either none of that name or the complete
 * one. A kill may leave the partial one, in a directory `NAME.….partial`.
 *
 * @param path the final name; the partial file is beside it
 * @param write called with the path of the partial file, which is empty
 */
export async function withPartialFile<Result>(
  path: string,
  write: (partial: string) => Promise<Result>,
): Promise<Result> {
  const id = crypto.randomUUID().slice(0, 8);
  const directory = `${path}.${id}${PARTIAL_SUFFIX}`;
  // SQLite's files beside a database are removed with the directory, even if
  // the program stops while SQLite is writing.
  inDirectory(directory, () => Deno.mkdirSync(directory, { mode: 0o700 }));
  try {
    const partial = join(directory, basename(path));
    createFile(partial);
    return await write(partial);
  } finally {
    removeIfPossible(directory);
  }
}

/**
 * Creates an empty file, for its user only.
 * @throws {FileError} if the directory that contains it is missing
 */
export function createFile(path: string): void {
  const options = { write: true, createNew: true, mode: 0o600 };
  inDirectory(path, () => Deno.openSync(path, options).close());
}

/**
 * Syncs a complete file and gives it its final name; it may keep the other one.
 * @returns what {@link syncDirectory} returns
 * @throws {FileError} if another file has the name
 */
export function publish(partial: string, path: string): string | undefined {
  if (exists(path)) throw new FileError("exists");
  sync(partial);
  try {
    Deno.linkSync(partial, path);
  } catch {
    if (exists(path)) throw new FileError("exists");
    // The file system does not support links.
    Deno.renameSync(partial, path);
  }
  return syncDirectory(path);
}

/**
 * Flushes the new name of a file to disk. A failure does not undo the name, but
 * a power cut might.
 * @returns why it failed, `undefined` if it did not
 */
export function syncDirectory(path: string): string | undefined {
  try {
    sync(dirname(path));
    return undefined;
  } catch (error) {
    const { message } = toFileError(error);
    return `cannot sync its directory, so it may lose its name in a power cut: ${message}`;
  }
}

/** @throws {FileError} if the directory that contains a new path is missing */
function inDirectory(path: string, make: () => void): void {
  try {
    make();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new FileError("no directory", `no directory ${dirname(path)}`);
  }
}
