import assert from "node:assert/strict";
import { isJson, refuseJson } from "../support/parsing.ts";

const VALUE = "a value";
const TEXT_END = "the end of the text";
const FIRST_NAME = 'a quoted member name or "}"';
const NEXT_NAME = 'a quoted member name after ","';
const COLON = '":" after a member name';
const AFTER_MEMBER = '"," or "}" after a member';
const AFTER_ELEMENT = '"," or "]" after an element';
const AFTER_MINUS = 'a digit after "-"';
const AFTER_POINT = 'a digit after "."';
const EXPONENT = "a digit in the exponent";
const NO_ZERO = "a number without a leading zero";
const CLOSING_QUOTE = "the closing quote of a string";
const ESCAPE = "an escape in place of a control character";
const LETTER = String.raw`one of " \ / b f n r t u after a backslash`;
const HEX = String.raw`four hexadecimal digits after \u`;

/** A text of one line, the column of its error, what was expected and found. */
type Invalid = readonly [string, number, string, string];

const INVALID_TEXTS: readonly Invalid[] = [
  // The text as a whole (section 2).
  [" ", 2, VALUE, TEXT_END],
  [" \ufeff{}", 2, VALUE, "U+FEFF"],
  ["{} x", 4, TEXT_END, '"x"'],

  // Literals (section 3).
  ["tru", 4, 'the "e" of true', TEXT_END],
  ["tRue", 2, 'the "r" of true', '"R"'],
  ["nil", 2, 'the "u" of null', '"i"'],
  ["nulll", 5, TEXT_END, '"l"'],

  // Objects (section 4).
  ["{", 2, FIRST_NAME, TEXT_END],
  ["{id:1}", 2, FIRST_NAME, '"i"'],
  ['{"id"}', 6, COLON, '"}"'],
  ['{"id":', 7, VALUE, TEXT_END],
  ['{"id":1 "a":2}', 9, AFTER_MEMBER, `'"'`],
  ['{"id":1,}', 9, NEXT_NAME, '"}"'],

  // Arrays (section 5).
  ["[", 2, VALUE, TEXT_END],
  ["[1", 3, AFTER_ELEMENT, TEXT_END],
  ["[1,]", 4, VALUE, '"]"'],
  ["[1 2]", 4, AFTER_ELEMENT, '"2"'],

  // Numbers (section 6).
  ["-", 2, AFTER_MINUS, TEXT_END],
  ["+1", 1, VALUE, '"+"'],
  ["00", 1, NO_ZERO, '"0"'],
  ["-01", 2, NO_ZERO, '"0"'],
  ["1.", 3, AFTER_POINT, TEXT_END],
  ["1e", 3, EXPONENT, TEXT_END],
  ["1e-+5", 4, EXPONENT, '"+"'],
  ["1e5.5", 4, TEXT_END, '"."'],

  // Strings (section 7).
  ['"', 2, CLOSING_QUOTE, TEXT_END],
  [String.raw`"\"`, 4, CLOSING_QUOTE, TEXT_END],
  ['"\n"', 2, ESCAPE, "U+000A"],
  ['"\x1f"', 2, ESCAPE, "U+001F"],
  ['{"a\rb":1}', 4, ESCAPE, "U+000D"],
  ['"\\', 3, LETTER, TEXT_END],
  [String.raw`"\a"`, 3, LETTER, '"a"'],
  ['"\\\n"', 3, LETTER, "U+000A"],
  ['"\\🌵"', 3, LETTER, '"🌵"'],
  [String.raw`"\u"`, 4, HEX, `'"'`],
  [String.raw`"\u00g0"`, 6, HEX, '"g"'],
  [String.raw`"\u+041"`, 4, HEX, '"+"'],
  [String.raw`"\u00`, 6, HEX, TEXT_END],
  ['"\\u00\uff11\uff11"', 6, HEX, '"\uff11"'],
];

Deno.test("readMembers() refuses texts that RFC 8259 does not allow, with position, expectation and character", () => {
  for (const [text, column, expected, found] of INVALID_TEXTS) {
    assert.ok(!isJson(text), `JSON.parse accepts ${JSON.stringify(text)}`);
    const message = `1:${column}: expected ${expected}, found ${found}`;
    assert.equal(refuseJson(text), message, JSON.stringify(text));
  }
});

Deno.test("readMembers() refuses the empty text, and a byte order mark", () => {
  const start = "1:1: expected a value, found";
  assert.equal(refuseJson(""), `${start} the end of the text`);
  for (const text of ["\ufeff", "\ufeff{}", "\ufeff\ufeff{}", "\ufeff?"]) {
    assert.equal(refuseJson(text), `${start} U+FEFF`);
  }
});

Deno.test("readMembers() counts lines by LF and CRLF, and a lone CR as a column", () => {
  for (const end of ["\n", "\r\n"]) {
    const name = JSON.stringify(end);
    const text = `{${end}"id": 1,${end}${end}  "name": ?}`;
    assert.match(refuseJson(text), /^4:11: /, name);
    assert.match(refuseJson(`${end}?`), /^2:1: /, name);
    assert.match(refuseJson(`{"id":1${end}`), /^2:1: /, name);
  }
  assert.match(refuseJson("\n\n"), /^3:1: /);
  assert.match(refuseJson("\n\r?"), /^2:2: /);
  assert.match(refuseJson("\r\r\n\n?"), /^3:1: /);
});

Deno.test("readMembers() counts no line for other separators", () => {
  const message = "1:4: expected a value, found U+0085";
  assert.equal(refuseJson("[1,\u00852]"), message);
  assert.match(refuseJson('["\u2028\u2029\x85",?'), /^1:8: /);
});

Deno.test("readMembers() counts columns in code points", () => {
  assert.match(refuseJson('{"ä":?}'), /^1:6: /);
  assert.match(refuseJson('{"🌵🌵":?}'), /^1:7: /);
  assert.match(refuseJson('{"\u0301":?}'), /^1:6: /);
  assert.match(refuseJson('["🌵",\n"🌵"?]'), /^2:4: /);
  assert.match(refuseJson('["\ue000\u{10ffff}\u{10000}"?]'), /^1:7: /);
});

Deno.test("readMembers() quotes one character of the text, escaped if it is invisible", () => {
  assert.match(refuseJson("[🌵🌵]"), /found "🌵"$/);
  assert.match(refuseJson("[\u202eabc]"), /found U\+202E$/);
  assert.match(refuseJson("[\u00a0]"), /found U\+00A0$/);
  assert.match(refuseJson("[\u0301]"), /found U\+0301$/);
  assert.match(refuseJson("[\u{e0001}]"), /found U\+E0001$/);
  assert.match(refuseJson("[\x1b[31m]"), /found U\+001B$/);
  assert.match(refuseJson("[\ud83c]"), /found U\+D83C$/);
});
