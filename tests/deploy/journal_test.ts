/** The handbook has the messages of the journal in the words of the source. */
import assert from "node:assert/strict";
import { HANDBOOK, read, ROOT } from "../support/readme.ts";

/** What systemd and SQLite say; walks through the handbook meet it. */
const OF_OTHERS = [
  "disk is full",
  "not a database",
  "status=6/ABRT",
  "status=7/BUS",
];

/** Returns the text of every source file. */
function sources(folder = new URL("src/", ROOT)): string {
  return Array.from(Deno.readDirSync(folder), ({ name, isDirectory }) => {
    if (isDirectory) return sources(new URL(`${name}/`, folder));
    return name.endsWith(".ts")
      ? Deno.readTextFileSync(new URL(name, folder))
      : "";
  }).join("\n");
}

Deno.test("the headings of the journal are messages of the source", () => {
  // One text, although the formatter has broken it into several.
  const text = sources().replaceAll(/["`] \+\s*["`]/g, "");
  const [, journal = ""] = read(HANDBOOK).split("\n## The journal\n");
  const headings = journal.match(/^### .*$/gm) ?? [];
  assert.ok(headings.length > 5);
  for (const [, message = ""] of headings.join().matchAll(/`([^`]+)`/g)) {
    if (OF_OTHERS.includes(message)) continue;
    const isThere = message.split(": ").every((part) => text.includes(part));
    assert.ok(isThere, message);
  }
});
