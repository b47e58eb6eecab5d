import assert from "node:assert/strict";
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
    assert.deepEqual(
      acceptNewPlant(`{${members.join()}}`),
      { id: 7n, plant: { name: "a", tag: "b" } },
    );
  }
  for (const members of [[id, name], [name, id]]) {
    const { plant } = acceptNewPlant(`{${members.join()}}`);
    assert.deepEqual(Object.entries(plant), [["name", "a"]]);
  }
});

Deno.test("parseNewPlant() decodes names and tags, and accepts empty ones", () => {
  const plants = [
    { name: "", tag: "" },
    { name: 'a"\\/\b\f\n\r\t\u0000é観🌵\ufeff', tag: "\u2028🌵\x7f" },
  ];
  for (const plant of plants) {
    const text = `{"id":1,${JSON.stringify(plant).slice(1)}`;
    assert.deepEqual(acceptNewPlant(text).plant, plant);
  }
  const escaped = String.raw`{"id":1,"name":"\uD83C\uDF35\/","tag":"\u00e9"}`;
  assert.deepEqual(acceptNewPlant(escaped).plant, { name: "🌵/", tag: "é" });
});

Deno.test("parseNewPlant() drops other members", () => {
  const { id, plant } = acceptNewPlant(
    '{"a":[{"id":"no"}],"id":1,"ID":2,"name":"n","__proto__":{"tag":"t"},"constructor":null,"a":0}',
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
    const message = refuseNewPlant(text, "notJson");
    assert.ok(message.startsWith(`line 1, column ${column}: `), message);
  }
});

Deno.test("parseNewPlant() refuses a text that is not an object", () => {
  for (
    const [text, kind] of [
      ["[]", "an array"],
      ['"id"', "a string"],
      ["1", "a number"],
      ["true", "a boolean"],
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
      ['{"tag":null,"id":5}', "name: expected a string, got nothing"],
      [
        '{"tag":true,"id":5,"name":"a"}',
        "tag: expected a string, got a boolean",
      ],
    ] as const
  ) assert.equal(refuseNewPlant(text), message);
});
