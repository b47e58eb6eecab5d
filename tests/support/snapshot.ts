import { createHash } from "node:crypto";

/** What a snapshot shows of a file; the index of a log changes when it is read. */
function describe(path: string): string {
  const { isSymlink, isDirectory, mode } = Deno.lstatSync(path);
  if (isSymlink) return `link to ${Deno.readLinkSync(path)}`;
  if (isDirectory) return "directory";
  const hash = createHash("sha256").update(Deno.readFileSync(path));
  return `${((mode ?? 0) & 0o777).toString(8)} ${hash.digest("hex")}`;
}

/**
 * Describes everything in a directory: the contents and modes of files, and the
 * targets of links. Equal snapshots mean that nothing was changed.
 */
export function snapshot(directory: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { name, isDirectory } of Deno.readDirSync(directory)) {
    const path = `${directory}/${name}`;
    found[name] = name.endsWith("-shm") ? "index" : describe(path);
    if (!isDirectory) continue;
    for (const [below, description] of Object.entries(snapshot(path))) {
      found[`${name}/${below}`] = description;
    }
  }
  return found;
}
