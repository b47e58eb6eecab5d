import { basename, dirname, join } from "node:path";
import { StoreError, toStoreError } from "../../store_error.ts";
import {
  isSameFile,
  NEW_FILE,
  removeIfPossible,
  statOrUndefined,
  sync,
} from "./file_system.ts";

/** The end of the name of a directory with an incomplete file. */
export const PARTIAL = ".partial";

/**
 * Makes a new file that is complete and on disk when it has its name. A kill at
 * any time leaves either no file of that name or the complete one, and perhaps
 * the partial one, in a directory `NAME.….partial` beside it.
 *
 * @param path the name
 * @param write called with the path of an empty file, for its user only, which
 * it fills
 * @throws {StoreError} if the file is there, but may lose its name in a power cut
 * @throws the error of Deno if another file has the name, or if there is no
 * directory for it
 */
export async function makeFile<Result>(
  path: string,
  write: (partial: string) => Promise<Result>,
): Promise<Result> {
  const id = crypto.randomUUID().slice(0, 8);
  const directory = `${path}.${id}${PARTIAL}`;
  // SQLite's files beside a database are removed with the directory, even if
  // the program stops while SQLite is writing.
  Deno.mkdirSync(directory, { mode: 0o700 });
  try {
    const partial = join(directory, basename(path));
    using file = Deno.openSync(partial, NEW_FILE);
    const made = file.statSync();
    const result = await write(partial);
    // Another user may write in the directory beside it.
    if (!isSameFile(statOrUndefined(partial), made)) {
      throw new StoreError("other", `another program has replaced ${partial}`);
    }
    publish(partial, path);
    return result;
  } finally {
    removeIfPossible(directory);
  }
}

/** Syncs a complete file and gives it its name; its partial name may remain. */
function publish(partial: string, path: string): void {
  sync(partial);
  try {
    Deno.linkSync(partial, path);
  } catch (error) {
    if (statOrUndefined(path) !== undefined) throw error;
    // The file system does not support links.
    Deno.renameSync(partial, path);
  }
  try {
    sync(dirname(path));
  } catch (error) {
    const { message } = toStoreError(error);
    throw new StoreError(
      "other",
      `it is complete, but a power cut may remove it: cannot sync its directory: ${message}`,
    );
  }
}
