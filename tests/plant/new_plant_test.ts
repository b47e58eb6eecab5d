import assert from "node:assert/strict";
import { InvalidText, parseNewPlant } from "../../src/plant/plant.ts";
import { acceptNewPlant, AN_ID, refuseNewPlant } from "../support/parsing.ts";
import { toBytes } from "../support/wire.ts";

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
      ['{"id":1,"name":"n","x":[01]}', 25],
      ["[1,]", 4],
      ['{"name":"\\ud800"', 17],
    ] as const
  ) {
    const refusal = parseNewPlant(toBytes(text));
    assert.ok(refusal instanceof InvalidText, `${text} is accepted`);
    assert.equal(refusal.kind, "not JSON", text);
    assert.deepEqual(refusal.position, { line: 1, column }, text);
  }
});

Deno.test("parseNewPlant() refuses bytes that are not well-formed UTF-8, and a byte order mark", () => {
  for (
    const [bytes, kind] of [
      [[0xff], "not UTF-8"],
      // Of a name: an overlong "/", an encoded surrogate, and no end.
      [[...toBytes('{"id":1,"name":"'), 0xc0, 0xaf], "not UTF-8"],
      [[...toBytes('{"id":1,"name":"'), 0xed, 0xa0, 0x80], "not UTF-8"],
      [[...toBytes('{"id":1,"name":"'), 0xe2, 0x82], "not UTF-8"],
      [[0xef, 0xbb, 0xbf, ...toBytes('{"id":1,"name":"a"}')], "not JSON"],
    ] as const
  ) {
    const refusal = parseNewPlant(Uint8Array.from(bytes));
    assert.ok(refusal instanceof InvalidText);
    assert.equal(refusal.kind, kind);
  }
});

const NO_ID = `id: expected ${AN_ID}, got nothing`;
const NO_NAME = "name: expected a string, got nothing";
const SURROGATE = "expected Unicode text, got an unpaired surrogate";

Deno.test("parseNewPlant() refuses a text that is not a NewPlant for its first problem in the order id, name, tag", () => {
  for (
    const [text, message] of [
      ["[]", "expected an object with id and name, got an array"],
      ["null", "expected an object with id and name, got null"],

      // Missing.
      ['{"tag":1,"tag":1,"name":2}', NO_ID],
      ['{"tag":null,"id":5}', NO_NAME],

      // Of another type.
      ['{"id":"1","name":"a"}', `id: expected ${AN_ID}, got a string`],
      ['{"id":{"id":1},"name":"a"}', `id: expected ${AN_ID}, got an object`],
      ['{"id":1,"name":null}', "name: expected a string, got null"],
      ['{"tag":1,"id":1,"name":"a"}', "tag: expected a string, got a number"],
      [
        '{"id":1,"name":"a","tag":null}',
        "tag: expected a string or nothing, got null: leave it out",
      ],

      // Duplicates, even with the same value.
      ['{"id":1,"id":1,"name":2}', "id: duplicate member"],
      [
        '{"id":1,"tag":2,"name":"a","n\\u0061me":"a"}',
        "name: duplicate member",
      ],
      ['{"id":1,"name":"a","tag":"t","tag":null}', "tag: duplicate member"],

      // An unpaired surrogate.
      [String.raw`{"id":1,"name":"\uDF35"}`, `name: ${SURROGATE}`],
      [String.raw`{"id":1,"name":"a","tag":"a\ud83c"}`, `tag: ${SURROGATE}`],
    ] as const
  ) assert.equal(refuseNewPlant(text), message);
});
