/** The handbook has the messages of the journal in the words of the source. */
import assert from "node:assert/strict";
import { read } from "../support/readme.ts";

/** Words of the system, which the source does not have. */
const OF_SYSTEM = [
  "code=killed",
  "oom-kill",
  "Dependency failed",
  "environment files",
  "No space left",
  "Permission denied",
  "Read-only",
  "not a database",
];

/** A line of a comment in TypeScript or in a script. */
const COMMENT = /^ *(\/\*\*|\*|\/\/|#).*$/gm;

/** A text in the source, in quotes of any kind. */
const LITERAL = /"[^"\n]*"|'[^'\n]*'|`[^`]*`/g;

/** Returns the words in code in a text. */
function wordsIn(text: string): string[] {
  return text.match(/(?<=`)[^`,]+(?=`)/g) ?? [];
}

const PAGE = read("src/deploy/accidents/README.md");
const [, LIST = ""] = PAGE.split("## The words in the journal");
const HEADINGS = LIST.match(/^### .*$/gm) ?? [];

Deno.test("the page about accidents has a heading for every row of its table", () => {
  const rows = PAGE.match(/^\| \[.*?\]/gm) ?? [];
  assert.ok(rows.length > 10);
  assert.deepEqual(rows.map(wordsIn), HEADINGS.map(wordsIn));
});

Deno.test("the words in the journal are those of a text in the source, or of the system", () => {
  const literals = [
    "src/commands/export.ts",
    "src/config/settings.ts",
    "src/console/failures.ts",
    "src/store/open.ts",
    "src/store/store_error.ts",
    "src/store/files/inspect.ts",
    "src/store/files/watch.ts",
    "src/store/retry.ts",
    "src/deploy/plant-store-backup.service",
    "src/deploy/plant-store-ready",
  ].flatMap((path) => read(path).replace(COMMENT, "").match(LITERAL) ?? []);
  for (const word of HEADINGS.flatMap(wordsIn)) {
    const isOfSource = literals.some((literal) => literal.includes(word));
    assert.ok(isOfSource || OF_SYSTEM.includes(word), word);
  }
});
