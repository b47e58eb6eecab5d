import { dirname } from "node:path";
import { SIDECAR_SUFFIXES, sync } from "./database_file.ts";

/**
 * Creates a database file that is complete and on disk when it gets its name: a
 * kill at any time leaves either no file of that name or the complete one.
 *
 * @param mode permissions of the file, before the umask
 * @param write fills the incomplete file at the path that it gets
 * @returns whether the file was created: not if another one has the name
 */
export async function createDatabaseFile(
  path: string,
  mode: number,
  write: (partialPath: string) => void | Promise<void>,
): Promise<boolean> {
  if (exists(path)) return false;
  const partial = `${path}.${crypto.randomUUID().slice(0, 8)}.partial`;
  try {
    Deno.openSync(partial, { write: true, createNew: true, mode }).close();
    await write(partial);
    sync(partial);
    const isCreated = publish(partial, path);
    sync(dirname(path));
    return isCreated;
  } finally {
    for (const suffix of ["", ...SIDECAR_SUFFIXES]) {
      removeIfExists(partial + suffix);
    }
  }
}

/** Gives a complete file its final name, unless that exists by now. */
function publish(partial: string, path: string): boolean {
  try {
    Deno.linkSync(partial, path);
  } catch {
    if (exists(path)) return false;
    // The file system does not support links.
    Deno.renameSync(partial, path);
  }
  return true;
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** Removes a file; ignores errors, so that they do not hide an earlier one. */
function removeIfExists(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // Usually, the file does not exist.
  }
}
