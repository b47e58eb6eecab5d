import assert from "node:assert/strict";
import { BODY_BYTES_MAX, JSON_DEPTH_MAX } from "../../src/limits.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TestService } from "../support/service.ts";
import { toBytes } from "../support/wire.ts";

/** A body, why it is refused, and the message or a part of it. */
type Row = readonly [
  name: string,
  body: string | Uint8Array,
  message: string | RegExp,
];

const VALID = '{"id":2,"name":"Fern"}';

const ID = "id: expected an integer from -9223372036854775808 to " +
  "9223372036854775807, got ";

/** Encodes a body with bytes in place of the `*`. */
function withBytes(body: string, ...bytes: number[]): Uint8Array {
  return new Uint8Array(
    [...body].flatMap((character) =>
      character === "*" ? bytes : [character.charCodeAt(0)]
    ),
  );
}

const NOT_UTF8: readonly Row[] = [
  ...([
    ["a lone continuation byte", [0x80]],
    ["an overlong slash", [0xc0, 0xaf]],
    ["an overlong NUL", [0xe0, 0x80, 0x80]],
    ["a surrogate", [0xed, 0xa0, 0x80]],
    ["a surrogate pair", [0xed, 0xa0, 0xbd, 0xed, 0xb2, 0x90]],
    ["an incomplete character", [0xe2, 0x82]],
    ["a code point above U+10FFFF", [0xf4, 0x90, 0x80, 0x80]],
    ["the byte FF", [0xff]],
    ["U+FFFD and an invalid byte", [0xef, 0xbf, 0xbd, 0xfe]],
  ] satisfies [string, number[]][]).flatMap(([name, bytes]): Row[] => [
    [
      `${name} in a name`,
      withBytes('{"id":2,"name":"a*b"}', ...bytes),
      "body: expected well-formed UTF-8",
    ],
    [
      `${name} after the object`,
      withBytes(`${VALID}*`, ...bytes),
      "body: expected well-formed UTF-8",
    ],
  ]),
  [
    "an invalid byte in a member that is dropped",
    withBytes('{"id":2,"name":"a","more":"*"}', 0xff),
    "body: expected well-formed UTF-8",
  ],
  [
    "UTF-16 with a byte order mark",
    Uint8Array.from([
      ...[0xff, 0xfe],
      ...[...VALID].flatMap((character) => [character.charCodeAt(0), 0]),
    ]),
    "body: expected well-formed UTF-8",
  ],
];

const NOT_JSON: readonly Row[] = [
  ["an empty body", "", "expected a JSON text, got nothing"],
  ["white space alone", " \r\n\t", /^line 2, column 2: expected/],
  ["a byte order mark", `\uFEFF${VALID}`, /byte order mark/],
  [
    "UTF-16 without a byte order mark",
    withBytes("*", 0x7b, 0, 0x7d, 0),
    /U\+0000/,
  ],
  ["two JSON texts", `${VALID}${VALID}`, /^line 1, column 23: /],
  ["two lines of JSON", `${VALID}\n${VALID}`, /^line 2, column 1: /],
  ["an object without its end", VALID.slice(0, -1), /the end of the text/],
  ["a name without its end", '{"id":2,"name":"Fe', /closing quote/],
  ["a trailing comma", '{"id":2,"name":"a",}', /column 20: /],
  ["a comment", '{"id":2,/**/"name":"a"}', /column 9: /],
  ["single quotes", "{'id':2,'name':'a'}", /column 2: /],
  ["names without quotes", '{id:2,name:"a"}', /column 2: /],
  ["an id of +1", '{"id":+1,"name":"a"}', /column 7: /],
  ["an id of 01", '{"id":01,"name":"a"}', /leading zero/],
  ["an id of 1.", '{"id":1.,"name":"a"}', /a digit after "\."/],
  ["an id of 1e", '{"id":1e,"name":"a"}', /in the exponent/],
  ["an id of 0x10", '{"id":0x10,"name":"a"}', /column 8: /],
  ["an id of NaN", '{"id":NaN,"name":"a"}', /column 7: /],
  ["an id of Infinity", '{"id":Infinity,"name":"a"}', /column 7: /],
  ["True", '{"id":2,"name":True}', /column 16: /],
  ["nothing after a colon", '{"id":,"name":"a"}', /a value/],
  ["a tab in a name", '{"id":2,"name":"a\tb"}', /column 18: .*escape/],
  ["a NUL byte in a name", '{"id":2,"name":"\0"}', /U\+0000/],
  ["an unknown escape", '{"id":2,"name":"\\x41"}', /backslash/],
  ["an incomplete escape", '{"id":2,"name":"\\u00"}', /hexadecimal/],
  [
    "an error in a member that is dropped",
    '{"id":2,"name":"a",\n"more":[1,2,]}',
    /^line 2, column 13: /,
  ],
  [
    `${JSON_DEPTH_MAX + 1} levels of nesting`,
    `{"id":2,"name":"a","more":${"[".repeat(JSON_DEPTH_MAX)}${
      "]".repeat(JSON_DEPTH_MAX)
    }}`,
    /at most 64 levels/,
  ],
  ["30,000 brackets", "[".repeat(30_000), /at most 64 levels/],
  ["the fields of a form", "id=2&name=Fern", /column 1: /],
];

const NOT_AN_OBJECT: readonly Row[] = [
  ["null", "null"],
  ["a boolean", "true"],
  ["a number", "7"],
  ["a string", '"plant"'],
  ["an array", `[${VALID}]`],
].map(([kind = "", body = ""]) => [
  `${kind} instead of an object`,
  body,
  `expected an object with id and name, got ${kind}`,
]);

const NOT_AN_ID: readonly Row[] = [
  ["an object without members", "{}", `${ID}nothing`],
  ["no id", '{"name":"a"}', `${ID}nothing`],
  ["an id in capitals", '{"ID":2,"name":"a"}', `${ID}nothing`],
  ["the members one level too deep", `{"plant":${VALID}}`, `${ID}nothing`],
  ["an id of null", '{"id":null,"name":"a"}', `${ID}null`],
  ["an id of true", '{"id":true,"name":"a"}', `${ID}a boolean`],
  ["an array as the id", '{"id":[2],"name":"a"}', `${ID}an array`],
  ["an object as the id", '{"id":{},"name":"a"}', `${ID}an object`],
  ["a string as the id", '{"id":"2","name":"a"}', `${ID}a string`],
  ["a duplicate id", '{"id":2,"id":2,"name":"a"}', "id: duplicate member"],
  [
    "a duplicate id, spelled with escapes",
    '{"id":2,"name":"a","\\u0069\\u0064":3}',
    "id: duplicate member",
  ],
  ...[
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "99999999999999999999999999",
    "1.5",
    "-0.5",
    "0.99999999999999999999",
    "1.0000000000000000000000001",
    "9223372036854775807.5",
    "1e-1",
    "1e-400",
    "1e19",
    "1e400",
    "-1e400",
    "1e999999999",
    "1e-999999999",
    "9.3e18",
    "1E99999999999999999999999",
  ].map((id): Row => [
    `the id ${id}`,
    `{"id":${id},"name":"a"}`,
    `${ID}${id}`,
  ]),
  [
    "an id of 30,000 digits",
    `{"id":${"9".repeat(30_000)},"name":"a"}`,
    `${ID}${"9".repeat(60)}…`,
  ],
  [
    "an id with 30,000 zeros after the point",
    `{"id":0.${"0".repeat(30_000)}1,"name":"a"}`,
    `${ID}0.${"0".repeat(58)}…`,
  ],
];

const NOT_A_TEXT: readonly Row[] = [
  ["no name", '{"id":2}', "name: expected a string, got nothing"],
  ["no name but a tag", '{"id":2,"tag":"a"}', /^name: .*got nothing$/],
  ...["name", "tag"].flatMap((member) => {
    const other = member === "tag" ? '"name":"a",' : "";
    const kinds = [
      ["null", "null"],
      ["a boolean", "false"],
      ["a number", "7"],
      ["an array", '["a"]'],
      ["an object", '{"a":"b"}'],
    ].map(([kind = "", value = ""]): Row => [
      `${kind} as the ${member}`,
      `{"id":2,${other}"${member}":${value}}`,
      `${member}: expected a string, got ${kind}`,
    ]);
    const surrogates = [
      ["a lone high surrogate", '"a\\ud83cb"'],
      ["a lone low surrogate", '"\\uDF31"'],
      ["surrogates in the wrong order", '"\\udf31\\ud83c"'],
    ].map(([kind = "", value = ""]): Row => [
      `${kind} in the ${member}`,
      `{"id":2,${other}"${member}":${value}}`,
      `${member}: expected Unicode text, got an unpaired surrogate`,
    ]);
    const escaped = `\\u00${member.charCodeAt(0).toString(16)}${
      member.slice(1)
    }`;
    const duplicates = [member, escaped].map((name, i): Row => [
      `a duplicate ${member}${i === 0 ? "" : ", spelled with an escape"}`,
      `{"id":2,${other}"${member}":"a","${name}":"a"}`,
      `${member}: duplicate member`,
    ]);
    return [...kinds, ...surrogates, ...duplicates];
  }),
];

const TABLES: readonly (readonly [error: number, rows: readonly Row[]])[] = [
  [40001, NOT_UTF8],
  [40002, NOT_JSON],
  [40003, [...NOT_AN_OBJECT, ...NOT_AN_ID, ...NOT_A_TEXT]],
  [41301, [
    [
      "a body of 32,769 bytes",
      VALID.padEnd(BODY_BYTES_MAX + 1),
      "body: expected at most 32768 bytes",
    ],
  ]],
];

for (const [error, rows] of TABLES) {
  for (const [name, body, message] of rows) {
    Deno.test(`handle() refuses ${name} with ${error}, and does not repeat the body`, async () => {
      using service = await TestService.start();
      const bytes = new Uint8Array(toBytes(body));
      // With a Content-Length, and without one.
      for (const sent of [bytes, new Blob([bytes]).stream()]) {
        const reply = await service.create(sent);
        assertRefusal(reply, { error, message });
        const repeated = typeof body === "string" && body.length > 10 &&
          JSON.parse(reply.text).message.includes(body);
        assert.equal(repeated, false);
      }
      assert.deepEqual(await service.stored(), []);
    });
  }
}

Deno.test("handle() refuses a body that ends too early with 40002, and stores nothing", async () => {
  using service = await TestService.start();
  const part = new Uint8Array(toBytes('{"id":7,"name":"a"}'));
  for (const headers of [{}, { "content-length": "100" }]) {
    let isSent = false;
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        if (isSent) controller.error(new TypeError("the client has left"));
        else controller.enqueue(part);
        isSent = true;
      },
    });
    const reply = await service.create(body, { headers });
    assertRefusal(reply, {
      error: 40002,
      message: "body: expected all of it, got a part",
    });
  }
  assert.deepEqual(await service.stored(), []);
});
