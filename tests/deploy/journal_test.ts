/** The handbook has the messages of the journal in the words of the source. */
import assert from "node:assert/strict";
import { read } from "../support/readme.ts";

Deno.test("the handbook explains messages that the source has", () => {
  const sources = [
    "src/console/banner.ts",
    "src/store/store_error.ts",
    "src/store/files/inspect.ts",
    "src/store/files/watch.ts",
  ].map(read).join();
  const handbook = read("src/deploy/README.md");
  const [, journal = ""] = handbook.split("## What the journal reports");
  const starts = journal.match(/^(-|###) `.*?`[^.:]*/gm) ?? [];
  const messages = starts.join().match(/(?<=`)[^`,]+(?=`)/g) ?? [];
  assert.equal(messages.length, 7);
  for (const message of messages) assert.ok(sources.includes(message), message);
});
