/** The handbook has the messages of the journal in the words of the source. */
import assert from "node:assert/strict";
import { read } from "../support/readme.ts";

/** Words of the system, which the source does not have. */
const OF_SYSTEM = [
  "Assertion failed",
  "Dependency failed",
  "environment files",
  "No space left",
  "Read-only",
];

/** A line of a comment in TypeScript or in a script. */
const COMMENT = /^ *(\/\*\*|\*|\/\/|#).*$/gm;

/** A text in the source, in quotes of any kind. */
const LITERAL = /"[^"\n]*"|'[^'\n]*'|`[^`]*`/g;

/** Returns the words in code in a text. */
function wordsIn(text: string): string[] {
  return text.match(/(?<=`)[^`,]+(?=`)/g) ?? [];
}

const [, TABLE = ""] = read("src/deploy/README.md")
  .split("## If something is wrong");

/** The first cells of the rows. */
const WORDS = (TABLE.match(/^\| `[^|]*/gm) ?? []).flatMap(wordsIn);

Deno.test("the words in the journal are those of a text in the source, or of the system", () => {
  const literals = [
    "src/commands/export.ts",
    "src/commands/serve.ts",
    "src/config/settings.ts",
    "src/console/failures.ts",
    "src/save_lost.ts",
    "src/http/keep_listening.ts",
    "src/store/open.ts",
    "src/store/store_error.ts",
    "src/store/files/inspect.ts",
    "src/store/files/watch.ts",
    "src/store/retry.ts",
  ].flatMap((path) => read(path).replace(COMMENT, "").match(LITERAL) ?? []);
  assert.ok(WORDS.length > 10);
  for (const word of WORDS) {
    // The kind of an error of the store is printed in parentheses.
    const text = word.replace(/^\((.*)\)$/, '"$1"');
    const isOfSource = literals.some((literal) => literal.includes(text));
    assert.ok(isOfSource || OF_SYSTEM.includes(word), word);
  }
});
