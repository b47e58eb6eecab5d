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

Deno.test("the page about accidents has every word of its table as a heading, and the source has these words", () => {
  const sources = [
    "src/commands/export.ts",
    "src/config/settings.ts",
    "src/console/failures.ts",
    "src/store/open.ts",
    "src/store/store_error.ts",
    "src/store/files/inspect.ts",
    "src/store/files/watch.ts",
    "src/store/retry.ts",
    "src/deploy/plant-store-ready",
  ].map(read).join();
  const page = read("src/deploy/accidents/README.md");
  const words = (text: string) => text.match(/(?<=`)[^`,]+(?=`)/g) ?? [];
  const [, list = ""] = page.split("## The words in the journal");
  const headings = list.match(/^### .*$/gm) ?? [];
  const rows = page.match(/^\| \[.*?\]/gm) ?? [];
  assert.deepEqual(rows.map(words), headings.map(words));
  assert.ok(headings.length > 10);
  for (const word of headings.flatMap(words)) {
    assert.ok(sources.includes(word) || OF_SYSTEM.includes(word), word);
  }
});
