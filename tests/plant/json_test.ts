import assert from "node:assert/strict";
import { ERROR, Refusal } from "../../src/errors.ts";
import { type JsonKind, type Members, readMembers } from "../../src/plant/json.ts";
import { JSON_DEPTH_MAX } from "../../src/limits.ts";
import { Random, seedOfRun } from "../support/random.ts";

const WANTED = ["id", "name", "tag"];

function accept(text: string): Members {
  const read = readMembers(text, WANTED);
  if (read instanceof Refusal) {
    assert.fail(`${JSON.stringify(text)} is refused: ${read.message}`);
  }
  return read;
}

/** The message of a refusal. */
function refuse(text: string): string {
  const read = readMembers(text, WANTED);
  assert.ok(read instanceof Refusal, `${JSON.stringify(text)} is accepted`);
  assert.equal(read.error, ERROR.NOT_JSON);
  return read.message;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The same value at each place where the grammar allows one. */
function everywhere(value: string): string[] {
  return [
    value,
    `[${value}]`,
    `[0,${value},0]`,
    `{"id":${value}}`,
    `{"other":${value}}`,
    `{"other":[{"id":${value},"a":0}],"b":0}`,
  ];
}

const NUMBERS = [
  "0",
  "-0",
  "7",
  "-7",
  "10",
  "907",
  "9007199254740993",
  "-9223372036854775808",
  "123456789012345678901234567890",
  "0.0",
  "-0.5",
  "0.25",
  "10.01",
  "3.1415926535897932384626433",
  "1.000",
  "0e0",
  "0E9",
  "-0e-0",
  "2e3",
  "2E3",
  "2e+3",
  "2E-3",
  "4e007",
  "4e-00",
  "6.5e1",
  "-6.05E+01",
  "1e999999999",
  "1e-999999999",
];

/** What is written, and what it stands for. */
const STRINGS: readonly (readonly [string, string])[] = [
  ['""', ""],
  ['" "', " "],
  ['"Monstera"', "Monstera"],
  [`"it's"`, "it's"],
  ['"/"', "/"],
  ['"[{,:}]"', "[{,:}]"],
  ['"-1e5 true null"', "-1e5 true null"],
  ['"Fleißiges Lieschen"', "Fleißiges Lieschen"],
  ['"観葉植物"', "観葉植物"],
  ['"🌵"', "🌵"],
  ['"\u007f\u0080\u00a0"', "\u007f\u0080\u00a0"],
  ['"\u2028\u2029\ufeff\uffff"', "\u2028\u2029\ufeff\uffff"],
  [String.raw`"\""`, '"'],
  [String.raw`"\\"`, "\\"],
  [String.raw`"\/"`, "/"],
  [String.raw`"\b\f\n\r\t"`, "\b\f\n\r\t"],
  [String.raw`"\\n"`, "\\n"],
  [String.raw`"\\\n"`, "\\\n"],
  [String.raw`"a\nb"`, "a\nb"],
  [String.raw`"\\u0041"`, "\\u0041"],
  [String.raw`"\u0041"`, "A"],
  [String.raw`"\u00411"`, "A1"],
  [String.raw`"\u00e9\u00E9\u00Ee"`, "ééî"],
  [String.raw`"\u0000"`, "\0"],
  [String.raw`"\u001f"`, "\x1f"],
  [String.raw`"\u0022\u005c"`, '"\\'],
  [String.raw`"\uD83C\udf35"`, "🌵"],
  [String.raw`"\ud83c"`, "\ud83c"],
  [String.raw`"\udf35\ud83c"`, "\udf35\ud83c"],
  [String.raw`"x\ud83cx"`, "x\ud83cx"],
];

const OTHERS: readonly (readonly [string, JsonKind])[] = [
  ["true", "boolean"],
  ["false", "boolean"],
  ["null", "null"],
  ["[]", "array"],
  ["[ ]", "array"],
  ["[[]]", "array"],
  ["[1]", "array"],
  ["[1,2]", "array"],
  ["[ 1 ,\t2\n,\r3 ]", "array"],
  ['[null,true,false,"",0,{},[]]', "array"],
  ["{}", "object"],
  ["{ }", "object"],
  ['{"":0}', "object"],
  ['{"a":{}}', "object"],
  ['{"a":1,"a":2}', "object"],
  ['{ "a" : 1 , "b"\t:\n2\r}', "object"],
  ['{"__proto__":1,"constructor":{"prototype":[]}}', "object"],
  [String.raw`{"\u0000\n":[]}`, "object"],
];

Deno.test("readMembers() accepts every form of number and keeps its spelling", () => {
  for (const source of NUMBERS) {
    for (const text of everywhere(source)) {
      assert.ok(accept(text) && parses(text));
    }
    assert.equal(accept(source).kind, "number");
    assert.deepEqual(accept(`{"id":${source}}`).members[0], {
      kind: "number",
      text: source,
      twice: false,
    });
  }
});

Deno.test("readMembers() accepts every form of string and decodes it", () => {
  for (const [source, value] of STRINGS) {
    for (const text of everywhere(source)) {
      assert.ok(accept(text) && parses(text));
    }
    assert.equal(accept(source).kind, "string");
    assert.deepEqual(accept(`{"name":${source}}`).members[1], {
      kind: "string",
      text: value,
      twice: false,
    });
  }
});

Deno.test("readMembers() tells the kind of every other value", () => {
  for (const [source, kind] of OTHERS) {
    for (const text of everywhere(source)) {
      assert.ok(accept(text) && parses(text));
    }
    assert.equal(accept(source).kind, kind);
    assert.deepEqual(accept(`{"tag":${source}}`).members[2], {
      kind,
      text: "",
      twice: false,
    });
  }
});

Deno.test("readMembers() takes the four white space characters between any tokens", () => {
  for (const space of [" ", "\t", "\n", "\r", "\r\n", " \t\n\r "]) {
    const tokens = [
      "",
      "{",
      '"id"',
      ":",
      "1",
      ",",
      '"x"',
      ":",
      "[",
      "2",
      ",",
      "3",
    ];
    const text = [...tokens, "]", "}", ""].join(space);
    assert.equal(accept(text).members[0]?.text, "1");
    assert.ok(parses(text));
  }
});

Deno.test("readMembers() gives the wanted members in the order they are wanted", () => {
  const { kind, members } = accept('{"tag":"t","x":0,"name":"n","id":1}');
  assert.equal(kind, "object");
  assert.deepEqual(members.map((member) => member?.text), ["1", "n", "t"]);
  assert.deepEqual(
    accept('{"name":"n"}').members.map((member) => member?.text),
    [
      undefined,
      "n",
      undefined,
    ],
  );
});

Deno.test("readMembers() takes members of the outermost object only", () => {
  const none = [undefined, undefined, undefined];
  assert.deepEqual(accept('{"a":{"id":1},"b":[{"name":"n"}]}').members, none);
  assert.deepEqual(accept('[{"id":1}]').members, none);
  assert.deepEqual(accept('"id"').members, none);
});

Deno.test("readMembers() knows a name by what it stands for", () => {
  for (
    const name of ["\\u0069d", "i\\u0064", "\\u0069\\u0064"]
  ) {
    assert.equal(accept(`{"${name}":5}`).members[0]?.text, "5");
  }
  for (
    const name of [
      "ID",
      "id ",
      " id",
      "i",
      "idx",
      "\\\\u0069d",
      "id\\u0000",
      "",
    ]
  ) {
    assert.equal(accept(`{"${name}":5}`).members[0], undefined);
  }
});

Deno.test("readMembers() finds names of Object.prototype only where they stand", () => {
  const wanted = ["__proto__", "constructor", "toString"];
  assert.deepEqual(readMembers("{}", wanted), {
    kind: "object",
    members: [undefined, undefined, undefined],
  });
  const read = readMembers('{"__proto__":1,"toString":"x"}', wanted);
  assert.ok(!(read instanceof Refusal));
  assert.deepEqual(read.members.map((member) => member?.text), [
    "1",
    undefined,
    "x",
  ]);
});

Deno.test("readMembers() tells which wanted members are given twice", () => {
  const twice = (text: string) =>
    accept(text).members.map((member) => member?.twice);
  assert.deepEqual(twice('{"id":1,"name":"a"}'), [false, false, undefined]);
  assert.deepEqual(twice('{"id":1,"name":"a","id":1}'), [
    true,
    false,
    undefined,
  ]);
  assert.deepEqual(twice('{"tag":1,"tag":"","tag":[]}'), [
    undefined,
    undefined,
    true,
  ]);
  assert.deepEqual(twice('{"\\u0069d":1,"id":2,"name":""}'), [
    true,
    false,
    undefined,
  ]);
  assert.deepEqual(twice('{"id":1,"x":0,"x":0,"y":{"id":2}}'), [
    false,
    undefined,
    undefined,
  ]);
});

Deno.test("readMembers() keeps the first of two", () => {
  assert.deepEqual(accept('{"id":1,"id":"second"}').members[0], {
    kind: "number",
    text: "1",
    twice: true,
  });
});

const DIGIT = "a digit";
const ELEMENT = 'expected "," or "]" after an element';
const MEMBER = 'expected "," or "}" after a member';
const LETTER = String.raw`expected one of " \ / b f n r t u after a backslash`;
const HEX = String.raw`expected four hexadecimal digits after \u`;

/** What is not JSON, and the words that say so. */
const REFUSED: readonly (readonly [string, string])[] = [
  // The text as a whole (section 2).
  ["", "expected a JSON text, got nothing"],
  [" ", "line 1, column 2: expected a value, found the end of the text"],
  ["\n\n", "line 3, column 1: expected a value, found the end of the text"],
  [
    "\ufeff{}",
    "expected a JSON text without a byte order mark (U+FEFF) before it",
  ],
  [" \ufeff{}", "line 1, column 2: expected a value, found U+FEFF"],
  ["{}{}", 'line 1, column 3: expected the end of the text, found "{"'],
  ["{} x", 'line 1, column 4: expected the end of the text, found "x"'],
  ["{},", 'line 1, column 3: expected the end of the text, found ","'],
  ["[]]", 'line 1, column 3: expected the end of the text, found "]"'],
  ["1 2", 'line 1, column 3: expected the end of the text, found "2"'],
  ['"a" "b"', `line 1, column 5: expected the end of the text, found '"'`],
  ["{}\0", "line 1, column 3: expected the end of the text, found U+0000"],
  ["{} // ok", 'line 1, column 4: expected the end of the text, found "/"'],
  ["/* */1", 'line 1, column 1: expected a value, found "/"'],

  // What is no white space.
  ["\u00a01", "line 1, column 1: expected a value, found U+00A0"],
  ["\v1", "line 1, column 1: expected a value, found U+000B"],
  ["\f1", "line 1, column 1: expected a value, found U+000C"],
  ["1\u2028", "line 1, column 2: expected the end of the text, found U+2028"],
  ["[1,\u20031]", "line 1, column 4: expected a value, found U+2003"],

  // Literals (section 3).
  ["True", 'line 1, column 1: expected a value, found "T"'],
  [
    "tru",
    'line 1, column 4: expected the "e" of true, found the end of the text',
  ],
  ["tRue", 'line 1, column 2: expected the "r" of true, found "R"'],
  ["[fals]", 'line 1, column 6: expected the "e" of false, found "]"'],
  ["nil", 'line 1, column 2: expected the "u" of null, found "i"'],
  ["nulll", 'line 1, column 5: expected the end of the text, found "l"'],
  ["undefined", 'line 1, column 1: expected a value, found "u"'],
  ["NaN", 'line 1, column 1: expected a value, found "N"'],
  ["Infinity", 'line 1, column 1: expected a value, found "I"'],
  ["-Infinity", `line 1, column 2: expected ${DIGIT} after "-", found "I"`],

  // Objects (section 4).
  [
    "{",
    'line 1, column 2: expected a quoted member name or "}", found the end of the text',
  ],
  ["{,}", 'line 1, column 2: expected a quoted member name or "}", found ","'],
  [
    "{id:1}",
    'line 1, column 2: expected a quoted member name or "}", found "i"',
  ],
  [
    "{'id':1}",
    `line 1, column 2: expected a quoted member name or "}", found "'"`,
  ],
  [
    "{1:1}",
    'line 1, column 2: expected a quoted member name or "}", found "1"',
  ],
  ['{"id"}', 'line 1, column 6: expected ":" after a member name, found "}"'],
  ['{"id" 1}', 'line 1, column 7: expected ":" after a member name, found "1"'],
  [
    '{"id"',
    'line 1, column 6: expected ":" after a member name, found the end of the text',
  ],
  ['{"id"=1}', 'line 1, column 6: expected ":" after a member name, found "="'],
  ['{"id":}', 'line 1, column 7: expected a value, found "}"'],
  ['{"id": }', 'line 1, column 8: expected a value, found "}"'],
  ['{"id"::1}', 'line 1, column 7: expected a value, found ":"'],
  ['{"id":', "line 1, column 7: expected a value, found the end of the text"],
  ['{"id":1', `line 1, column 8: ${MEMBER}, found the end of the text`],
  ['{"id":1\n', `line 2, column 1: ${MEMBER}, found the end of the text`],
  ['{"id":1 "a":2}', `line 1, column 9: ${MEMBER}, found '"'`],
  ['{"id":1]', `line 1, column 8: ${MEMBER}, found "]"`],
  ['{"id":1;"a":2}', `line 1, column 8: ${MEMBER}, found ";"`],
  [
    '{"id":1,}',
    'line 1, column 9: expected a quoted member name after ",", found "}"',
  ],
  [
    '{"id":1,,"a":2}',
    'line 1, column 9: expected a quoted member name after ",", found ","',
  ],
  [
    '{"id":1,',
    'line 1, column 9: expected a quoted member name after ",", found the end of the text',
  ],
  ["}", 'line 1, column 1: expected a value, found "}"'],

  // Arrays (section 5).
  ["[", "line 1, column 2: expected a value, found the end of the text"],
  ["[,]", 'line 1, column 2: expected a value, found ","'],
  ["[1", `line 1, column 3: ${ELEMENT}, found the end of the text`],
  ["[1,]", 'line 1, column 4: expected a value, found "]"'],
  ["[1,,2]", 'line 1, column 4: expected a value, found ","'],
  ["[1 2]", `line 1, column 4: ${ELEMENT}, found "2"`],
  ["[1}", `line 1, column 3: ${ELEMENT}, found "}"`],
  ["[1:2]", `line 1, column 3: ${ELEMENT}, found ":"`],
  ["]", 'line 1, column 1: expected a value, found "]"'],

  // Numbers (section 6).
  [
    "-",
    `line 1, column 2: expected ${DIGIT} after "-", found the end of the text`,
  ],
  ["--1", `line 1, column 2: expected ${DIGIT} after "-", found "-"`],
  ["- 1", `line 1, column 2: expected ${DIGIT} after "-", found U+0020`],
  ["+1", 'line 1, column 1: expected a value, found "+"'],
  [".5", 'line 1, column 1: expected a value, found "."'],
  ["-.5", `line 1, column 2: expected ${DIGIT} after "-", found "."`],
  ["00", 'line 1, column 2: expected no digit after a leading zero, found "0"'],
  [
    "-01",
    'line 1, column 3: expected no digit after a leading zero, found "1"',
  ],
  [
    "[012.5]",
    'line 1, column 3: expected no digit after a leading zero, found "1"',
  ],
  [
    "1.",
    `line 1, column 3: expected ${DIGIT} after ".", found the end of the text`,
  ],
  ["1.e5", `line 1, column 3: expected ${DIGIT} after ".", found "e"`],
  ["1.2.3", 'line 1, column 4: expected the end of the text, found "."'],
  [
    "1e",
    `line 1, column 3: expected ${DIGIT} in the exponent, found the end of the text`,
  ],
  [
    "1E+",
    `line 1, column 4: expected ${DIGIT} in the exponent, found the end of the text`,
  ],
  ["1e-+5", `line 1, column 4: expected ${DIGIT} in the exponent, found "+"`],
  ["1e.5", `line 1, column 3: expected ${DIGIT} in the exponent, found "."`],
  ["1e5.5", 'line 1, column 4: expected the end of the text, found "."'],
  ["1e5e5", 'line 1, column 4: expected the end of the text, found "e"'],
  ["0x10", 'line 1, column 2: expected the end of the text, found "x"'],
  ["1n", 'line 1, column 2: expected the end of the text, found "n"'],
  ["1_000", 'line 1, column 2: expected the end of the text, found "_"'],
  ["1,5", 'line 1, column 2: expected the end of the text, found ","'],
  ["\u0661", 'line 1, column 1: expected a value, found "\u0661"'],

  // Strings (section 7).
  [
    '"',
    "line 1, column 2: expected the closing quote of a string, found the end of the text",
  ],
  [
    '"a',
    "line 1, column 3: expected the closing quote of a string, found the end of the text",
  ],
  [
    '{"id',
    "line 1, column 5: expected the closing quote of a string, found the end of the text",
  ],
  [
    String.raw`"\"`,
    "line 1, column 4: expected the closing quote of a string, found the end of the text",
  ],
  ["'a'", `line 1, column 1: expected a value, found "'"`],
  ["`a`", 'line 1, column 1: expected a value, found "`"'],
  [
    '"\n"',
    "line 1, column 2: expected an escape in place of a control character, found U+000A",
  ],
  [
    '"a\tb"',
    "line 1, column 3: expected an escape in place of a control character, found U+0009",
  ],
  [
    '"\0"',
    "line 1, column 2: expected an escape in place of a control character, found U+0000",
  ],
  [
    '"\x1f"',
    "line 1, column 2: expected an escape in place of a control character, found U+001F",
  ],
  [
    '{"a\rb":1}',
    "line 1, column 4: expected an escape in place of a control character, found U+000D",
  ],
  ['"\\', `line 1, column 3: ${LETTER}, found the end of the text`],
  [String.raw`"\a"`, `line 1, column 3: ${LETTER}, found "a"`],
  [String.raw`"\N"`, `line 1, column 3: ${LETTER}, found "N"`],
  [String.raw`"\'"`, `line 1, column 3: ${LETTER}, found "'"`],
  [String.raw`"\x41"`, `line 1, column 3: ${LETTER}, found "x"`],
  [String.raw`"\U0041"`, `line 1, column 3: ${LETTER}, found "U"`],
  [String.raw`"\0"`, `line 1, column 3: ${LETTER}, found "0"`],
  ['"\\\n"', `line 1, column 3: ${LETTER}, found U+000A`],
  ['"\\🌵"', `line 1, column 3: ${LETTER}, found "🌵"`],
  [String.raw`"\u"`, `line 1, column 4: ${HEX}, found '"'`],
  [String.raw`"\u004"`, `line 1, column 7: ${HEX}, found '"'`],
  [String.raw`"\u00g0"`, `line 1, column 6: ${HEX}, found "g"`],
  [String.raw`"\u{41}"`, `line 1, column 4: ${HEX}, found "{"`],
  [String.raw`"\u+041"`, `line 1, column 4: ${HEX}, found "+"`],
  [String.raw`"\u 041"`, `line 1, column 4: ${HEX}, found U+0020`],
  [String.raw`"\u00`, `line 1, column 6: ${HEX}, found the end of the text`],
  ['"\\u00\uff11\uff11"', `line 1, column 6: ${HEX}, found "\uff11"`],
];

Deno.test("readMembers() refuses what RFC 8259 does not allow, says where and why", () => {
  for (const [text, message] of REFUSED) {
    assert.ok(!parses(text), `JSON.parse takes ${JSON.stringify(text)}`);
    assert.equal(refuse(text), message, JSON.stringify(text));
  }
});

Deno.test("readMembers() allows nine letters after a backslash and no other", () => {
  for (let code = 0; code < 0x180; code++) {
    const letter = String.fromCharCode(code);
    const text = `"\\${letter}0041"`;
    if ('"\\/bfnrtu'.includes(letter)) {
      assert.ok(accept(text) && parses(text));
    } else {
      assert.match(refuse(text), /^line 1, column 3: expected one of /);
    }
  }
});

Deno.test("readMembers() refuses the same at every other place", () => {
  for (const [bad] of REFUSED) {
    for (const text of everywhere(bad)) {
      // Some are allowed inside an array: `1,5`, or no value at all.
      if (parses(text)) accept(text);
      else refuse(text);
    }
  }
});

Deno.test("readMembers() counts lines by LF, CRLF and CR", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const text = `{${end}"id": 1,${end}${end}  "name": ?}`;
    assert.equal(
      refuse(text),
      'line 4, column 11: expected a value, found "?"',
      JSON.stringify(end),
    );
    assert.equal(
      refuse(`${end}?`),
      'line 2, column 1: expected a value, found "?"',
    );
  }
  assert.match(refuse("\n\r?"), /^line 3, column 1: /);
  assert.match(refuse("\r\r\n\n?"), /^line 4, column 1: /);
  assert.match(refuse("[1,\u00852]"), /^line 1, column 4: .*U\+0085$/);
});

Deno.test("readMembers() counts columns in code points", () => {
  assert.match(refuse('{"ä":?}'), /^line 1, column 6: /);
  assert.match(refuse('{"🌵🌵":?}'), /^line 1, column 7: /);
  assert.match(refuse('{"\u0301":?}'), /^line 1, column 6: /);
  assert.match(refuse('["🌵",\n"🌵"?]'), /^line 2, column 4: /);
});

Deno.test("readMembers() shows one character of the text at most", () => {
  assert.match(refuse("[🌵🌵]"), /found "🌵"$/);
  assert.match(refuse("[\u202eabc]"), /found U\+202E$/);
  assert.match(refuse("[\u0301]"), /found U\+0301$/);
  assert.match(refuse("[\u{e0001}]"), /found U\+E0001$/);
  assert.match(refuse("[\x1b[31m]"), /found U\+001B$/);
  for (
    const text of [`[${"secret".repeat(5000)}]`, `"${"secret".repeat(5000)}`]
  ) {
    const message = refuse(text);
    assert.ok(message.length < 120, message);
    assert.doesNotMatch(message, /secret|se"/);
  }
});

Deno.test("readMembers() accepts nesting up to the limit and refuses it above", () => {
  const shapes: readonly (readonly [string, string])[] = [
    ["[", "]"],
    ['{"a":', "}"],
    ['{"id":', "}"],
    ['[0,{"a":0,"b":', ',"c":0}]'],
  ];
  for (const [open, close] of shapes) {
    const levels = open.startsWith("[0") ? 2 : 1;
    const nested = (depth: number) => {
      const times = depth / levels;
      // Half a shape more where the depth asks for it.
      const rest = Number.isInteger(times) ? ["", ""] : ["[", "]"];
      return open.repeat(times) + rest[0] + "0" + rest[1] + close.repeat(times);
    };
    accept(nested(JSON_DEPTH_MAX - 1));
    accept(nested(JSON_DEPTH_MAX));
    assert.match(
      refuse(nested(JSON_DEPTH_MAX + 1)),
      /^line 1, column \d+: expected at most 64 levels of arrays and objects, found "[[{]"$/,
    );
  }
  assert.match(refuse("[".repeat(65)), /^line 1, column 65: expected at most/);
  assert.match(
    refuse(`{"x":${"[".repeat(64)}`),
    /^line 1, column 69: expected at most/,
  );
});

Deno.test("readMembers() counts levels, not containers", () => {
  const row = "[".repeat(JSON_DEPTH_MAX - 1) + "]".repeat(JSON_DEPTH_MAX - 1);
  accept(`[${Array(10).fill(row).join()}]`);
  accept(`{${Array(10).fill(`"x":${row}`).join()}}`);
});

Deno.test("readMembers() bounds the nesting before the stack ends", () => {
  for (const open of ["[", '{"a":', '[{"id":']) {
    assert.match(refuse(open.repeat(1_000_000)), /at most 64 levels/);
  }
});

Deno.test("readMembers() reads texts of a million characters to their end", () => {
  const length = 2 ** 20;
  const long = (head: string, part: string, tail: string) =>
    head + part.repeat(length / part.length) + tail;
  // Each takes a tenth of a second at most; were one quadratic in its length,
  // this test would not end for minutes.
  for (
    const [text, isJson] of [
      [long('{"name":"', "\\n", '"}'), true],
      [long('{"name":"', "\\\\", ""), false],
      [long('{"name":"', "\\u00e9", '"}'), true],
      [long("{", '"\\u0061":1,', '"id":2}'), true],
      [long("{", '"id":1,', '"id":2}'), true],
      [long('{"id":', "0", "}"), false],
      [long('{"id":1', "0", "}"), true],
      [long('{"id":0.', "0", "1}"), true],
      [long('{"id":1e', "0", "}"), true],
      [long("", " ", ""), false],
      [long("", "\r\n", "?"), false],
      [long("[", "[],", "[]]"), true],
      [long('"', "🌵", ""), false],
    ] as const
  ) {
    const isRead = !(readMembers(text, WANTED) instanceof Refusal);
    assert.equal(isRead, isJson, text.slice(0, 20));
  }
});

/** A JSON text, and for the members of an object how often each is given. */
function randomText(random: Random): { text: string; given?: string[] } {
  if (random.chance(0.2)) {
    return { text: around(random, randomValue(random, 0)) };
  }
  const given: string[] = [];
  const members: string[] = [];
  for (let left = random.int(0, 5); left > 0; left--) {
    const name = random.pick(["id", "name", "tag", "x", "__proto__", ""]);
    given.push(name);
    members.push(
      around(random, spell(random, name)) + ":" +
        around(random, randomValue(random, 1)),
    );
  }
  return { text: around(random, `{${members.join()}}`), given };
}

function randomValue(random: Random, depth: number): string {
  const list = (make: () => string) =>
    Array.from({ length: random.int(0, 3) }, make).join();
  switch (random.int(depth < 4 ? 0 : 2, 8)) {
    case 0:
      return `[${list(() => around(random, randomValue(random, depth + 1)))}]`;
    case 1:
      return `{${
        list(() =>
          `${around(random, randomString(random))}:${
            around(random, randomValue(random, depth + 1))
          }`
        )
      }}`;
    case 2:
      return random.pick(["true", "false", "null"]);
    case 3:
    case 4:
    case 5:
      return randomNumber(random);
    default:
      return randomString(random);
  }
}

function randomNumber(random: Random): string {
  const digits = () =>
    Array.from({ length: random.int(1, 20) }, () => random.int(0, 9)).join("");
  const whole = random.chance(0.3) ? "0" : random.int(1, 9) + digits();
  return (random.chance(0.3) ? "-" : "") + whole +
    (random.chance(0.3) ? `.${digits()}` : "") +
    (random.chance(0.3)
      ? random.pick(["e", "E"]) + random.pick(["", "+", "-"]) +
        random.int(0, 400)
      : "");
}

function randomString(random: Random): string {
  const units = Array.from(
    { length: random.int(0, 6) },
    () =>
      random.pick(["a", "é", "観", "🌵", '"', "\\", "/", "\n", "\0", "\x7f"]) +
      (random.chance(0.1) ? String.fromCharCode(random.int(0, 0xffff)) : ""),
  );
  return spell(random, units.join(""));
}

/** A string in one of its spellings. */
function spell(random: Random, value: string): string {
  let text = "";
  for (const unit of value.split("")) {
    const hex = unit.charCodeAt(0).toString(16).padStart(4, "0");
    const short = JSON.stringify(unit).slice(1, -1);
    text += random.chance(0.1)
      ? `\\u${random.chance(0.5) ? hex : hex.toUpperCase()}`
      : unit === "/" && random.chance(0.5)
      ? "\\/"
      : short;
  }
  return `"${text}"`;
}

function around(random: Random, text: string): string {
  const space = () =>
    random.chance(0.1) ? random.pick([" ", "\t", "\n", "\r"]) : "";
  return space() + text + space();
}

/** A text with something taken out, put in, exchanged, doubled or cut off. */
function mutate(random: Random, text: string): string {
  const from = random.int(0, text.length);
  const to = Math.min(text.length, from + random.int(0, 3));
  const put = random.pick([
    ...['"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", ".", "e", "E", "+"],
    ...["-", "t", "n", "f", "u", "true", "null", " ", "\n", "\t", "\r", "\0"],
    ...["\x1f", "\x7f", "\v", "\ufeff", "\u00a0", "é", "🌵", "\\u00", "/", "'"],
  ] as [string, ...string[]]);
  switch (random.int(0, 3)) {
    case 0:
      return text.slice(0, from) + text.slice(to);
    case 1:
      return text.slice(0, from) + put + text.slice(to);
    case 2:
      return text.slice(0, to) + text.slice(from);
    default:
      return text.slice(0, from);
  }
}

/** Compares with JSON.parse, which differs in nothing at so little nesting. */
function compare(text: string): boolean {
  const read = readMembers(text, WANTED);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    assert.ok(read instanceof Refusal, "JSON.parse refuses it");
    return false;
  }
  assert.ok(!(read instanceof Refusal), "JSON.parse accepts it");
  const kind = value === null
    ? "null"
    : Array.isArray(value)
    ? "array"
    : typeof value;
  assert.equal(read.kind, kind);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return true;
  }
  WANTED.forEach((name, i) => {
    const member = read.members[i];
    const expected = Object.getOwnPropertyDescriptor(value, name)?.value;
    assert.equal(member === undefined, expected === undefined, name);
    // JSON.parse keeps the last of two.
    if (member === undefined || member.twice) return;
    if (member.kind === "string") assert.equal(member.text, expected);
    else if (member.kind === "number") {
      assert.equal(Number(member.text), expected);
    } else if (member.kind === "boolean") {
      assert.equal(typeof expected, "boolean");
    } else if (member.kind === "null") assert.equal(expected, null);
    else assert.equal(Array.isArray(expected), member.kind === "array");
  });
  return true;
}

Deno.test("readMembers() agrees with JSON.parse on random texts and their mutations", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  let accepted = 0;
  let refused = 0;
  for (let round = 0; round < 6000; round++) {
    const { text, given } = randomText(random);
    let tried = text;
    try {
      assert.ok(compare(text));
      if (given !== undefined) {
        assert.deepEqual(
          accept(text).members.map((member) => member?.twice),
          WANTED.map((name) => {
            const times = given.filter((one) => one === name).length;
            return times === 0 ? undefined : times > 1;
          }),
        );
      }
      for (let step = 0; step < 3; step++) {
        tried = mutate(random, tried);
        if (compare(tried)) accepted++;
        else refused++;
      }
    } catch (error) {
      throw new Error(
        `SEED=${seed}, round ${round}: ${JSON.stringify(tried)}`,
        {
          cause: error,
        },
      );
    }
  }
  // Else the mutations would test one side only.
  assert.ok(accepted > 1000 && refused > 1000, `${accepted}, ${refused}`);
});
