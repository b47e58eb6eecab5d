/** The handbook has the messages of the journal in the words of the source. */
import assert from "node:assert/strict";
import { read } from "../support/readme.ts";

/** Words of the system, which the source does not have. */
const OF_SYSTEM = [
  "code=killed",
  "oom-kill",
  "Dependency failed",
  "No space left",
  "Permission denied",
  "not a database",
];

/** A line of a comment in TypeScript or in a script. */
const COMMENT = /^ *(\/\*\*|\*|\/\/|#).*$/gm;

/** A text in the source, in quotes of any kind. */
const LITERAL = /"[^"\n]*"|'[^'\n]*'|`[^`]*`/g;

Deno.test("the page about accidents has every word of its table as a heading, and texts of the source have these words", () => {
  const literals = [
    "src/commands/export.ts",
    "src/config/settings.ts",
    "src/console/failures.ts",
    "src/store/open.ts",
    "src/store/store_error.ts",
    "src/store/files/inspect.ts",
    "src/store/files/watch.ts",
    "src/store/retry.ts",
    "src/deploy/plant-store-ready",
  ].flatMap((path) => read(path).replace(COMMENT, "").match(LITERAL) ?? []);
  const page = read("src/deploy/accidents/README.md");
  const words = (text: string) => text.match(/(?<=`)[^`,]+(?=`)/g) ?? [];
  const [, list = ""] = page.split("## The words in the journal");
  const headings = list.match(/^### .*$/gm) ?? [];
  const rows = page.match(/^\| \[.*?\]/gm) ?? [];
  assert.deepEqual(rows.map(words), headings.map(words));
  assert.ok(headings.length > 10);
  for (const word of headings.flatMap(words)) {
    const isOfSource = literals.some((literal) => literal.includes(word));
    assert.ok(isOfSource || OF_SYSTEM.includes(word), word);
  }
});
