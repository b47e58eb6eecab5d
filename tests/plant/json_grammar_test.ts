import assert from "node:assert/strict";
import type { JsonKind } from "../../src/plant/json.ts";
import { acceptJson, everywhere, isJson, refuseJson } from "../support/json.ts";

const NUMBERS = [
  "0",
  "-0",
  "7",
  "10",
  "9007199254740993",
  "-9223372036854775808",
  "123456789012345678901234567890",
  "0.0",
  "-0.5",
  "3.1415926535897932384626433",
  "0e0",
  "0E9",
  "2e3",
  "2e+3",
  "2E-3",
  "4e007",
  "6.5e1",
  "-6.05E+01",
  "1e999999999",
  "1e-999999999",
];

/** Spellings of strings, and the strings themselves. */
const STRINGS: readonly (readonly [string, string])[] = [
  ['""', ""],
  ['"Monstera"', "Monstera"],
  ['"[{,:}]"', "[{,:}]"],
  ['"Fleißiges Lieschen"', "Fleißiges Lieschen"],
  ['"🌵"', "🌵"],
  ['"\u007f\u0080\u00a0"', "\u007f\u0080\u00a0"],
  ['"\u2028\u2029\ufeff\uffff"', "\u2028\u2029\ufeff\uffff"],
  [String.raw`"\""`, '"'],
  [String.raw`"\\"`, "\\"],
  [String.raw`"\/"`, "/"],
  [String.raw`"\b\f\n\r\t"`, "\b\f\n\r\t"],
  [String.raw`"\\\n"`, "\\\n"],
  [String.raw`"\\u0041"`, "\\u0041"],
  [String.raw`"\u00411"`, "A1"],
  [String.raw`"\u00e9\u00E9\u00Ee"`, "ééî"],
  [String.raw`"\u0000"`, "\0"],
  [String.raw`"\u0022\u005c"`, '"\\'],
  [String.raw`"\uD83C\udf35"`, "🌵"],
  [String.raw`"\ud83c"`, "\ud83c"],
  [String.raw`"\udf35\ud83c"`, "\udf35\ud83c"],
];

const OTHER_VALUES: readonly (readonly [string, JsonKind])[] = [
  ["true", "boolean"],
  ["false", "boolean"],
  ["null", "null"],
  ["[]", "array"],
  ["[[]]", "array"],
  ["[1,2]", "array"],
  ["[ 1 ,\t2\n,\r3 ]", "array"],
  ['[null,true,false,"",0,{},[]]', "array"],
  ["{}", "object"],
  ["{ }", "object"],
  ['{"":0}', "object"],
  ['{"a":1,"a":2}', "object"],
  ['{ "a" : 1 , "b"\t:\n2\r}', "object"],
  ['{"__proto__":1,"constructor":{"prototype":[]}}', "object"],
  [String.raw`{"\u0000\n":[]}`, "object"],
];

/** Asserts the kind and the text of a value, wherever it is. */
function assertValue(source: string, kind: JsonKind, text: string): void {
  for (const place of everywhere(source)) {
    acceptJson(place);
    assert.ok(isJson(place), place);
  }
  assert.equal(acceptJson(source).kind, kind);
  assert.deepEqual(
    acceptJson(`{"name":${source}}`).members[1],
    { kind, text, isDuplicate: false },
  );
}

Deno.test("readMembers() accepts every form of number and keeps its spelling", () => {
  for (const source of NUMBERS) assertValue(source, "number", source);
});

Deno.test("readMembers() accepts every form of string and decodes it", () => {
  for (const [source, text] of STRINGS) assertValue(source, "string", text);
});

Deno.test("readMembers() accepts every other value and returns its kind", () => {
  for (const [source, kind] of OTHER_VALUES) assertValue(source, kind, "");
});

Deno.test("readMembers() accepts the four white space characters between any tokens", () => {
  const tokens = '{ "id" : 1 , "x" : [ 2 , 3 ] }'.split(" ");
  for (const space of [" ", "\t", "\n", "\r", "\r\n", " \t\n\r "]) {
    const text = ["", ...tokens, ""].join(space);
    assert.equal(acceptJson(text).members[0]?.text, "1");
    assert.ok(isJson(text), text);
  }
});

Deno.test("readMembers() accepts nine letters after a backslash and no other character", () => {
  for (let code = 0; code < 0x180; code++) {
    const letter = String.fromCharCode(code);
    const text = `"\\${letter}0041"`;
    if ('"\\/bfnrtu'.includes(letter)) acceptJson(text);
    else {assert.match(
        refuseJson(text),
        /^line 1, column 3: expected one of " /,
      );}
  }
});

Deno.test("readMembers() accepts 22 hexadecimal digits after \\u and no other character", () => {
  for (let code = 0; code < 0x180; code++) {
    const digit = String.fromCharCode(code);
    for (const [start, end] of [["", "041"], ["004", ""]] as const) {
      const text = `"\\u${start}${digit}${end}"`;
      if (/[0-9A-Fa-f]/.test(digit)) acceptJson(text);
      else {
        const position = `line 1, column ${4 + start.length}: `;
        const message = refuseJson(text);
        assert.ok(message.startsWith(`${position}expected four hex`), message);
      }
    }
  }
});
