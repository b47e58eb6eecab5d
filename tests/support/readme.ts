/** The README's blocks of commands. */
import assert from "node:assert/strict";

const README = Deno.readTextFileSync(
  new URL("../../README.md", import.meta.url),
);

/** Returns the first block of commands below a heading, as it is printed. */
export function blockOf(heading: string): string {
  const [, section] = README.split(`\n${heading}\n`);
  const [block] = /(?<=\n\n)( {4}.*\n)+/.exec(section ?? "") ?? [];
  assert.ok(block !== undefined, `no block below ${heading}`);
  return block;
}
