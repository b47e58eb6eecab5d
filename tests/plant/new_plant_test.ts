import assert from "node:assert/strict";
import { InvalidText } from "../../src/plant/invalid_text.ts";
import { parseNewPlant } from "../../src/plant/plant.ts";
import {
  acceptNewPlant,
  AN_ID,
  refuseNewPlant,
  withId,
} from "../support/new_plant.ts";

Deno.test("parseNewPlant() returns id, name and tag in any order, and no tag if there is none", () => {
  const [id, name, tag] = ['"id":7', '"name":"a"', '"tag":"b"'];
  for (
    const members of [[id, name, tag], [name, tag, id], ["\n" + tag, id, name]]
  ) {
    const newPlant = acceptNewPlant(`{${members.join()}}`);
    assert.deepEqual(newPlant, { id: 7n, plant: { name: "a", tag: "b" } });
  }
  for (const members of [[id, name], [name, id]]) {
    const { plant } = acceptNewPlant(`{${members.join()}}`);
    assert.deepEqual(Object.entries(plant), [["name", "a"]]);
  }
});

Deno.test("parseNewPlant() decodes escapes in names and tags", () => {
  const escaped = String.raw`{"id":1,"name":"\uD83C\uDF35\/","tag":"\u00e9"}`;
  assert.deepEqual(acceptNewPlant(escaped).plant, { name: "🌵/", tag: "é" });
});

Deno.test("parseNewPlant() drops other members", () => {
  const { id, plant } = acceptNewPlant(
    '{"a":[{"id":"no"}],"id":1,"ID":2,"name":"n","__proto__":{"tag":"t"},"constructor":null,"a":"\\ud83c"}',
  );
  assert.equal(id, 1n);
  assert.deepEqual(Object.keys(plant), ["name"]);
  assert.equal(Object.getPrototypeOf(plant), Object.prototype);
});

Deno.test("parseNewPlant() reports an error of the grammar, also of other members, before one of a member", () => {
  for (
    const [text, column] of [
      ['{"id":1,"id":2,"name":3', 24],
      ['{"id":1,"name":"n","x":[01]}', 26],
      ["[1,]", 4],
      ['{"name":"\\ud800"', 17],
    ] as const
  ) {
    const refusal = parseNewPlant(text);
    assert.ok(refusal instanceof InvalidText, `${text} is accepted`);
    assert.equal(refusal.kind, "not JSON", text);
    assert.deepEqual(refusal.position, { line: 1, column }, text);
  }
});

const NO_ID = `id: expected ${AN_ID}, got nothing`;
const NO_NAME = "name: expected a string, got nothing";
const SURROGATE = "expected Unicode text, got an unpaired surrogate";

/** Values of kinds that no member has. */
const OTHERS = [
  ["true", "a boolean"],
  ["[1]", "an array"],
  ['{"id":1}', "an object"],
] as const;

const SURROGATES = [
  String.raw`\ud83c`,
  String.raw`\uDF35`,
  String.raw`\ud83c \udf35`,
  "\ud83c",
  "a\udf35",
];

/** What is refused: texts and their messages. */
const REFUSED: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "a text that is not an object": [
    ["[]", "expected an object with id and name, got an array"],
    ['"id"', "expected an object with id and name, got a string"],
    ["1", "expected an object with id and name, got a number"],
    ["true", "expected an object with id and name, got a boolean"],
    ["null", "expected an object with id and name, got null"],
  ],
  "a missing id or name": [
    ["{}", NO_ID],
    ['{"name":"a"}', NO_ID],
    ['{"id":1}', NO_NAME],
    ['{"id":1,"tag":"t"}', NO_NAME],
  ],
  "an id that is not a number": [
    ...OTHERS,
    ["null", "null"],
    ['"1"', "a string"],
  ].flatMap(([value = "", kind]) => {
    const message = `id: expected ${AN_ID}, got ${kind}`;
    return withId(value).map((text) => [text, message]);
  }),
  "a name or a tag that is not a string": [
    ...[...OTHERS, ["1", "a number"]].flatMap(([value, kind]) => [
      [`{"id":1,"name":${value}}`, `name: expected a string, got ${kind}`],
      [
        `{"id":1,"name":"a","tag":${value}}`,
        `tag: expected a string, got ${kind}`,
      ],
    ]),
    ['{"id":1,"name":null}', "name: expected a string, got null"],
    [
      '{"id":1,"name":"a","tag":null}',
      "tag: expected a string or nothing, got null: leave it out",
    ],
  ],
  "a duplicate member, even with the same value": [
    ['{"id":1,"id":1,"name":"a"}', "id: duplicate member"],
    ['{"id":1,"name":"a","name":"a"}', "name: duplicate member"],
    ['{"id":1,"name":"a","n\\u0061me":"b"}', "name: duplicate member"],
    ['{"id":1,"name":"a","tag":"t","tag":"t"}', "tag: duplicate member"],
    ['{"id":1,"name":"a","tag":"t","tag":null}', "tag: duplicate member"],
  ],
  "an unpaired surrogate in a name or a tag": SURROGATES.flatMap((text) => [
    [`{"id":1,"name":"${text}"}`, `name: ${SURROGATE}`],
    [`{"id":1,"name":"a","tag":"${text}"}`, `tag: ${SURROGATE}`],
  ]),
  "several errors, for the first one in the order id, name, tag": [
    ['{"tag":1,"tag":1,"name":2}', NO_ID],
    [
      '{"tag":1,"tag":2,"name":3,"name":4,"id":5,"id":6}',
      "id: duplicate member",
    ],
    ['{"tag":null,"id":5}', NO_NAME],
    ['{"tag":true,"id":5,"name":"a"}', "tag: expected a string, got a boolean"],
  ],
};

for (const [what, rows] of Object.entries(REFUSED)) {
  Deno.test(`parseNewPlant() refuses ${what}`, () => {
    for (const [text = "", message] of rows) {
      assert.equal(refuseNewPlant(text), message);
    }
  });
}
