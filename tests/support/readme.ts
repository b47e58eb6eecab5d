/** The files of the project, and the blocks of commands in its documents. */

/** The folder of the project. */
export const ROOT = new URL("../../", import.meta.url);

/** Returns the text of a file of the project. */
export function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Returns the paths of all files in a folder of the project. */
export function filesIn(folder: string): string[] {
  return Array.from(Deno.readDirSync(new URL(folder, ROOT))).flatMap(
    ({ name, isDirectory }) =>
      isDirectory ? filesIn(`${folder}${name}/`) : [folder + name],
  );
}

/** A block of commands in a document. */
interface Block {
  readonly heading: string;
  /** As it is printed. */
  readonly text: string;
}

/** Returns the blocks of commands in a document. */
export function blocksIn(path: string): Block[] {
  return read(path).split(/^#+ /m).flatMap((section) => {
    const [heading = ""] = section.split("\n", 1);
    const texts = section.match(/(?<=\n\n)( {4}.*\n)+/g) ?? [];
    return texts.map((text) => ({ heading, text }));
  });
}
