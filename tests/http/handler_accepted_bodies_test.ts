import assert from "node:assert/strict";
import { BODY_BYTES_MAX, JSON_DEPTH_MAX } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";
import { TestService } from "../support/service.ts";
import { toBytes } from "../support/wire.ts";

/** A body, and the plant that it creates. */
type Row = readonly [name: string, body: string, id: bigint, plant: Plant];

/** A body with an empty name. */
const EMPTY = '{"id":7,"name":""}';

/** Returns a row with a body of exactly so many bytes. */
function ofBytes(bytes: number, character: string): Row {
  const count = (bytes - EMPTY.length) / toBytes(character).length;
  const name = character.repeat(Math.floor(count));
  const body = EMPTY.replace('""', `"${name}"`);
  const padding = " ".repeat(bytes - toBytes(body).length);
  return [`${bytes} bytes of ${character}`, body + padding, 7n, { name }];
}

const IDS: readonly Row[] = ([
  ["0", 0n],
  ["-0", 0n],
  ["-0.0e5", 0n],
  ["1", 1n],
  ["-7", -7n],
  ["9223372036854775807", 9223372036854775807n],
  ["-9223372036854775808", -9223372036854775808n],
  ["9223372036854775806", 9223372036854775806n],
  ["-9223372036854775807", -9223372036854775807n],
  ["9007199254740991", 9007199254740991n],
  ["9007199254740992", 9007199254740992n],
  ["9007199254740993", 9007199254740993n],
  ["-9007199254740993", -9007199254740993n],
  ["1234567890123456789", 1234567890123456789n],
  ["1.0", 1n],
  ["1e2", 100n],
  ["110.0", 110n],
  ["1.11e2", 111n],
  ["112000e-3", 112n],
  ["1e3", 1000n],
  ["1E+4", 10_000n],
  ["9.223372036854775807e18", 9223372036854775807n],
  ["9.223372036854775805e18", 9223372036854775805n],
  ["-9.223372036854775808E+18", -9223372036854775808n],
  ["-9.223372036854775807000E+18", -9223372036854775807n],
  [`113.${"0".repeat(5_000)}`, 113n],
  [`${"0.".padEnd(400, "0")}114e401`, 114n],
] satisfies [string, bigint][]).map(([id, value]) => [
  `the id ${id.slice(0, 30)}`,
  `{"id":${id},"name":"a"}`,
  value,
  { name: "a" },
]);

const TEXTS: readonly Row[] = ([
  ["an empty name", '""', ""],
  ["a name of white space", '"  "', "  "],
  [
    "every escape",
    String.raw`"\"\\\/\b\f\n\r\t\u0041\u00e9"`,
    '"\\/\b\f\n\r\tAé',
  ],
  ["an escaped NUL", String.raw`"a\u0000b"`, "a\0b"],
  ["an emoji", '"🌱👩‍🌾"', "🌱👩‍🌾"],
  ["an emoji as escaped surrogates", String.raw`"\ud83c\udf31"`, "🌱"],
  ["U+FFFD", '"a\uFFFDb"', "a\uFFFDb"],
  ["an escaped U+FFFD", String.raw`"\ufffd"`, "\uFFFD"],
  ["a byte order mark in a name", '"\uFEFFa"', "\uFEFFa"],
  ["letters of many scripts", '"Ñ草נצҐ"', "Ñ草נצҐ"],
  ["a name that is not normalized", '"e\u0301"', "e\u0301"],
  ["U+2028", '"\u2028"', "\u2028"],
  ["DEL and U+FFFF", '"\x7f\uffff"', "\x7f\uffff"],
] satisfies [string, string, string][]).flatMap(([name, json, text]) => [
  [
    `${name} as the name`,
    `{"id":7,"name":${json}}`,
    7n,
    { name: text },
  ],
  [
    `${name} as the tag`,
    `{"id":7,"name":"a","tag":${json}}`,
    7n,
    { name: "a", tag: text },
  ],
]);

const SPELLINGS: readonly Row[] = [
  ["a plant without a tag", '{"id":7,"name":"Fern"}', 7n, { name: "Fern" }],
  [
    "a plant with a tag",
    '{"id":7,"name":"Fern","tag":"shade"}',
    7n,
    { name: "Fern", tag: "shade" },
  ],
  [
    "members that the description does not name, and drops them",
    '{"more":{"id":9,"name":[null,true,1e5,"x"]},"id":7,"":0,"name":"a","m":1,"m":2}',
    7n,
    { name: "a" },
  ],
  [
    "a member __proto__, and drops it",
    '{"id":7,"name":"a","__proto__":{"tag":"t"}}',
    7n,
    { name: "a" },
  ],
  [
    "members in another order, with white space",
    '\r\n\t {\n"tag" : "t" ,\t"name":"a", "id" :7 }\n ',
    7n,
    { name: "a", tag: "t" },
  ],
  [
    "names of members with escapes",
    String.raw`{"\u0069d":7,"n\u0061me":"a","\u0074ag":"t"}`,
    7n,
    { name: "a", tag: "t" },
  ],
  [
    `${JSON_DEPTH_MAX} levels of nesting`,
    `{"id":7,"name":"a","more":${"[".repeat(JSON_DEPTH_MAX - 1)}${
      "]".repeat(JSON_DEPTH_MAX - 1)
    }}`,
    7n,
    { name: "a" },
  ],
];

const LARGEST: readonly Row[] = [
  ofBytes(BODY_BYTES_MAX - 1, "x"),
  ofBytes(BODY_BYTES_MAX, "x"),
  ofBytes(BODY_BYTES_MAX, "é"),
  ofBytes(BODY_BYTES_MAX, "草"),
  ofBytes(BODY_BYTES_MAX, "🌱"),
];

for (
  const [name, body, id, plant] of [...IDS, ...TEXTS, ...SPELLINGS, ...LARGEST]
) {
  Deno.test(`handle() accepts ${name}`, async () => {
    const bytes = new Uint8Array(toBytes(body));
    // With a Content-Length, and without one.
    for (const sent of [bytes, new Blob([bytes]).stream()]) {
      using service = await TestService.start();
      const reply = await service.create(sent);
      assert.equal(reply.status, 200, reply.text);
      assert.equal(reply.headers.get("content-type"), "application/json");
      assert.equal(reply.text, JSON.stringify(plant));
      assert.deepEqual(await service.stored(), [[["plants", id], plant]]);
    }
  });
}

Deno.test("handle() accepts a body in parts that split characters", async () => {
  using service = await TestService.start();
  const parts = [...toBytes('{"id":7,"name":"é🌱"}')];
  const body = ReadableStream.from(parts.map((byte) => Uint8Array.of(byte)));
  assert.equal((await service.create(body)).text, '{"name":"é🌱"}');
  assert.deepEqual(await service.stored(), [[["plants", 7n], { name: "é🌱" }]]);
});
