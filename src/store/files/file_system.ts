import { basename, dirname, join, resolve } from "node:path";

/**
 * Returns the information about a file, or about a link itself, or `undefined` if
 * there is none.
 * @throws the error of the runtime if the path cannot be examined
 */
export function lstatOrUndefined(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** Returns whether both are the same file, or both absent. */
export function isSameFile(
  one: Deno.FileInfo | undefined,
  other: Deno.FileInfo | undefined,
): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}

/**
 * Returns an absolute path without links; the file may be missing, or the target
 * of a link. A path that cannot be examined stays as it is: whatever uses it
 * reports this.
 */
export function realPathOf(path: string): string {
  const absolute = resolve(path);
  try {
    return Deno.realPathSync(absolute);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) return absolute;
  }
  try {
    const directory = Deno.realPathSync(dirname(absolute));
    const missing = join(directory, basename(absolute));
    return lstatOrUndefined(missing)?.isSymlink
      ? realPathOf(resolve(directory, Deno.readLinkSync(missing)))
      : missing;
  } catch {
    return absolute;
  }
}
