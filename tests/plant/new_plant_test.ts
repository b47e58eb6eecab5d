import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import {
  acceptNewPlant,
  AN_ID,
  refuseNewPlant,
  withId,
} from "../support/new_plant.ts";

Deno.test("parseNewPlant() returns id, name and tag", () => {
  assert.deepEqual(
    acceptNewPlant('{"id":7,"name":"Monstera","tag":"climber"}'),
    { id: 7n, plant: { name: "Monstera", tag: "climber" } },
  );
});

Deno.test("parseNewPlant() returns no tag if the text has none", () => {
  for (const text of ['{"id":7,"name":"Aloe"}', '{"name":"Aloe","id":7}']) {
    const { plant } = acceptNewPlant(text);
    assert.deepEqual(plant, { name: "Aloe" });
    assert.deepEqual(Object.keys(plant), ["name"]);
  }
});

Deno.test("parseNewPlant() accepts the members in any order and with any white space", () => {
  const expected = { id: 7n, plant: { name: "a", tag: "b" } };
  const [id, name, tag] = ['"id":7', '"name":"a"', '"tag":"b"'];
  for (
    const members of [
      [id, name, tag],
      [id, tag, name],
      [name, id, tag],
      [name, tag, id],
      [tag, id, name],
      [tag, name, id],
    ]
  ) assert.deepEqual(acceptNewPlant(`{${members.join()}}`), expected);
  for (
    const text of [
      '{"id": 7, "name": "a", "tag": "b"}',
      '\r\n{\t"id"\n: 7 ,"name" :"a","tag":"b" }\n',
    ]
  ) assert.deepEqual(acceptNewPlant(text), expected);
});

Deno.test("parseNewPlant() accepts the empty string as a name and as a tag", () => {
  const plant = { name: "", tag: "" };
  for (
    const text of ['{"id":1,"name":"","tag":""}', '{"tag":"","name":"","id":1}']
  ) assert.deepEqual(acceptNewPlant(text).plant, plant);
});

Deno.test("parseNewPlant() decodes names and tags, including characters beyond the Basic Multilingual Plane", () => {
  const plant = {
    name: 'a"\\/\b\f\n\r\t\u0000é観🌵\ufeff',
    tag: "\u2028🌵\x7f",
  };
  assert.deepEqual(
    acceptNewPlant(`{"id":1,${JSON.stringify(plant).slice(1)}`).plant,
    plant,
  );
  assert.deepEqual(
    acceptNewPlant(
      String.raw`{"id":1,"name":"\uD83C\uDF35\/","tag":"\u00e9"}`,
    ).plant,
    { name: "🌵/", tag: "é" },
  );
});

Deno.test("parseNewPlant() accepts a name of the size of the largest body", () => {
  for (const letter of ["a", "é", "観"]) {
    const name = letter.repeat(BODY_BYTES_MAX);
    for (
      const text of [`{"id":1,"name":"${name}"}`, `{"name":"${name}","id":1}`]
    ) assert.equal(acceptNewPlant(text).plant.name, name);
  }
});

Deno.test("parseNewPlant() drops other members", () => {
  const { id, plant } = acceptNewPlant(
    '{"a":[{"id":"no"}],"id":1,"ID":2,"name":"n","__proto__":{"tag":"t"},"constructor":null,"a":0}',
  );
  assert.equal(id, 1n);
  assert.deepEqual(Object.keys(plant), ["name"]);
  assert.equal(Object.getPrototypeOf(plant), Object.prototype);
});

Deno.test("parseNewPlant() checks the grammar of other members", () => {
  assert.equal(
    refuseNewPlant('{"id":1,"name":"n","x":[01]}', "notJson"),
    'line 1, column 26: expected no digit after a leading zero, found "1"',
  );
});

Deno.test("parseNewPlant() refuses invalid JSON with the message of readMembers()", () => {
  for (
    const [text, message] of [
      ["", "expected a JSON text, got nothing"],
      ['{"id":}', 'line 1, column 7: expected a value, found "}"'],
      [
        '\ufeff{"id":1,"name":"a"}',
        "expected a JSON text without a byte order mark (U+FEFF) before it",
      ],
      [
        '{"id":1,"name":"a"}{}',
        'line 1, column 20: expected the end of the text, found "{"',
      ],
      [
        '{"id":1,"name":"a\tb"}',
        "line 1, column 18: expected an escape in place of a control character, found U+0009",
      ],
      [
        '{"id":01,"name":"a"}',
        'line 1, column 8: expected no digit after a leading zero, found "1"',
      ],
    ] as const
  ) assert.equal(refuseNewPlant(text, "notJson"), message);
});

Deno.test("parseNewPlant() reports an error of the grammar before one of the members", () => {
  for (
    const [text, column] of [
      ['{"id":1,"id":2,"name":3', 24],
      ['{"id":"x"}}', 11],
      ["[1,]", 4],
      ['{"name":"\\ud800"', 17],
    ] as const
  ) {
    const message = refuseNewPlant(text, "notJson");
    assert.ok(message.startsWith(`line 1, column ${column}: `), message);
  }
});

Deno.test("parseNewPlant() refuses a text that is not an object", () => {
  for (
    const [text, kind] of [
      ["[]", "an array"],
      ['[{"id":1,"name":"a"}]', "an array"],
      ['"id"', "a string"],
      ["1", "a number"],
      ["-0.5", "a number"],
      ["true", "a boolean"],
      ["false", "a boolean"],
      ["null", "null"],
    ] as const
  ) {
    assert.equal(
      refuseNewPlant(text),
      `expected an object with id and name, got ${kind}`,
    );
  }
});

Deno.test("parseNewPlant() refuses a missing id or name", () => {
  const noId = `id: expected ${AN_ID}, got nothing`;
  const noName = "name: expected a string, got nothing";
  assert.equal(refuseNewPlant("{}"), noId);
  assert.equal(refuseNewPlant('{"name":"a"}'), noId);
  assert.equal(refuseNewPlant('{"id":1}'), noName);
  assert.equal(refuseNewPlant('{"id":1,"tag":"t"}'), noName);
});

const KINDS = [
  ["true", "a boolean"],
  ["null", "null"],
  ["[1]", "an array"],
  ['{"id":1}', "an object"],
] as const;

Deno.test("parseNewPlant() refuses an id that is not a number", () => {
  for (const [value, kind] of [...KINDS, ['"1"', "a string"]] as const) {
    for (const text of withId(value)) {
      assert.equal(refuseNewPlant(text), `id: expected ${AN_ID}, got ${kind}`);
    }
  }
});

Deno.test("parseNewPlant() refuses a name or a tag that is not a string", () => {
  for (const [value, kind] of [...KINDS, ["1", "a number"]] as const) {
    assert.equal(
      refuseNewPlant(`{"id":1,"name":${value},"tag":"t"}`),
      `name: expected a string, got ${kind}`,
    );
    assert.equal(
      refuseNewPlant(`{"id":1,"name":"a","tag":${value}}`),
      value === "null"
        ? "tag: expected a string or nothing, got null: leave it out"
        : `tag: expected a string, got ${kind}`,
    );
  }
});

Deno.test("parseNewPlant() refuses a duplicate member, even with the same value", () => {
  for (
    const [name, text] of [
      ["id", '{"id":1,"id":1,"name":"a"}'],
      ["name", '{"id":1,"name":"a","name":"a"}'],
      ["tag", '{"id":1,"name":"a","tag":"t","tag":"t"}'],
      ["tag", '{"id":1,"name":"a","tag":"t","tag":null}'],
      ["id", String.raw`{"id":1,"\u0069d":2,"name":"a"}`],
      ["name", String.raw`{"id":1,"name":"a","n\u0061me":"b"}`],
    ] as const
  ) assert.equal(refuseNewPlant(text), `${name}: duplicate member`);
});

Deno.test("parseNewPlant() refuses an unpaired surrogate in a name or a tag, and drops others", () => {
  const problem = "expected Unicode text, got an unpaired surrogate";
  for (
    const surrogate of [
      String.raw`\ud83c`,
      String.raw`\uDF35`,
      String.raw`a\udf35\ud83cb`,
      String.raw`\ud83c\ud83c\udf35`,
      String.raw`\ud83c \udf35`,
      "\ud83c",
      "a\udf35",
    ]
  ) {
    assert.equal(
      refuseNewPlant(`{"id":1,"name":"${surrogate}"}`),
      `name: ${problem}`,
    );
    assert.equal(
      refuseNewPlant(`{"id":1,"name":"a","tag":"${surrogate}"}`),
      `tag: ${problem}`,
    );
    const { plant } = acceptNewPlant(
      `{"id":1,"name":"a","x":"${surrogate}"}`,
    );
    assert.deepEqual(plant, { name: "a" });
  }
});

Deno.test("parseNewPlant() reports the first of several errors in the order id, name, tag", () => {
  for (
    const [text, message] of [
      [
        '{"tag":1,"tag":1,"name":2}',
        `id: expected ${AN_ID}, got nothing`,
      ],
      [
        '{"tag":1,"tag":2,"name":3,"name":4,"id":5,"id":6}',
        "id: duplicate member",
      ],
      ['{"tag":null,"name":3,"name":4,"id":5}', "name: duplicate member"],
      ['{"tag":null,"id":5}', "name: expected a string, got nothing"],
      [
        '{"tag":true,"id":5,"name":"a"}',
        "tag: expected a string, got a boolean",
      ],
      ['{"id":5,"id":"x","name":"a"}', "id: duplicate member"],
    ] as const
  ) assert.equal(refuseNewPlant(text), message);
});
