/** The documents, and their blocks of commands. */
import assert from "node:assert/strict";

/** The folder of the project. */
export const ROOT = new URL("../../", import.meta.url);

/** The paths of all documents. */
export const DOCUMENTS: readonly string[] = [
  "README.md",
  ...documentsIn("src/"),
  ...documentsIn("tests/"),
];

/** The operator's handbook. */
export const HANDBOOK = "src/deploy/README.md";

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

/**
 * Returns a block of commands in a section of a document, as it is printed.
 * @param index its place among the blocks of the section
 */
export function blockOf(
  heading: string,
  index = 0,
  path = HANDBOOK,
): string {
  const [, rest = ""] = `\n${read(path)}`.split(`\n${heading}\n`);
  const [section = ""] = rest.split(/^#/m);
  // The text of a numbered list is indented less.
  const block = section.match(/(?<=\n\n)( {4}.*\n)+/g)?.[index];
  assert.ok(block !== undefined, `no block ${index} below ${heading}`);
  return block;
}
