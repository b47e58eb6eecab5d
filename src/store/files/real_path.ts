import { basename, dirname, join, resolve } from "node:path";
import { lstatOrUndefined } from "./inspect.ts";

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
