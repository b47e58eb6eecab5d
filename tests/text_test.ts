import assert from "node:assert/strict";
import { errorMessage, toLine, truncate } from "../src/text.ts";

Deno.test("errorMessage() returns the message of an error, and other values as text", () => {
  assert.equal(errorMessage(new TypeError("no such key")), "no such key");
  assert.equal(errorMessage(new Error("")), "");
  assert.equal(errorMessage(undefined), "undefined");
  assert.equal(errorMessage(7n), "7");
  const several = [new Error("connect ::1"), "connect 127.0.0.1"];
  const joined = errorMessage(new AggregateError(several));
  assert.equal(joined, "connect ::1, connect 127.0.0.1");
  assert.equal(errorMessage(new AggregateError(several, "none")), "none");
});

Deno.test("truncate() cuts a text above the limit, but no surrogate pair, and appends an ellipsis", () => {
  for (
    const [text, charsMax, cut] of [
      ["abc", 3, "abc"],
      ["ab\ud83c", 3, "ab\ud83c"],
      ["abcd", 3, "abc…"],
      ["a\nb\nc", 3, "a\nb…"],
      ["a", 0, "…"],
      ["🌵🌵", 2, "🌵…"],
      ["🌵🌵", 3, "🌵…"],
      ["\u{10000}a", 1, "…"],
      ["\u{10ffff}a", 1, "…"],
      ["\u{10ffff}a", 2, "\u{10ffff}…"],
    ] as const
  ) assert.equal(truncate(text, charsMax), cut);
});

Deno.test("toLine() joins lines with a space, without the space around them, and escapes what a terminal does not show", () => {
  for (
    const [text, line] of [
      ["", ""],
      ["the store fails: 5 %", "the store fails: 5 %"],
      ["é観🌵 «x»  b", "é観🌵 «x»  b"],
      ["a\rb", "a b"],
      [" a \n\n\t b\r\n  \n  c\n", "a b c"],
      [" \n \r\n ", ""],
      ["\x1b[31mred\x1b[0m", String.raw`\u{1b}[31mred\u{1b}[0m`],
      ["a\0b\tc\x7fd\x9be", String.raw`a\u{0}b\u{9}c\u{7f}d\u{9b}e`],
      ["a\u2028b\u2029c", String.raw`a\u{2028}b\u{2029}c`],
      ["a\u202eb\u{e0041}c", String.raw`a\u{202e}b\u{e0041}c`],
      ["a\ud83cb\udf35", String.raw`a\u{d83c}b\u{df35}`],
    ] as const
  ) assert.equal(toLine(text), line);
});
