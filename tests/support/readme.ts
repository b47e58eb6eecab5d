/** The documents, and the README's blocks of commands. */
import assert from "node:assert/strict";

/** The folder of the project. */
export const ROOT = new URL("../../", import.meta.url);

/** The paths of all documents. */
export const DOCUMENTS: readonly string[] = [
  "README.md",
  ...documentsIn("src/"),
  ...documentsIn("tests/"),
];

/** Returns the text of a file of the project. */
export function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

function documentsIn(folder: string): string[] {
  return Array.from(Deno.readDirSync(new URL(folder, ROOT))).flatMap(
    ({ name, isDirectory }) => {
      if (isDirectory) return documentsIn(`${folder}${name}/`);
      return name.endsWith(".md") ? [folder + name] : [];
    },
  );
}

/** Returns the first block of commands below a heading, as it is printed. */
export function blockOf(heading: string, path = "README.md"): string {
  const [, section] = read(path).split(`\n${heading}\n`);
  const [block] = /(?<=\n\n)( {4}.*\n)+/.exec(section ?? "") ?? [];
  assert.ok(block !== undefined, `no block below ${heading}`);
  return block;
}
