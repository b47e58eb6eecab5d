import assert from "node:assert/strict";
import { readMembers } from "../../src/plant/json.ts";
import { acceptJson } from "../support/json.ts";

/** Returns the text of each requested member. */
function texts(text: string): (string | undefined)[] {
  return acceptJson(text).members.map((member) => member?.text);
}

const NONE = [undefined, undefined, undefined];

Deno.test("readMembers() returns the requested members in the order of the request", () => {
  const all = '{"tag":"t","x":0,"name":"n","id":1}';
  assert.deepEqual(texts(all), ["1", "n", "t"]);
  assert.deepEqual(texts('{"name":"n"}'), [undefined, "n", undefined]);
  assert.deepEqual(texts("{}"), NONE);
});

Deno.test("readMembers() returns members of the outermost object only", () => {
  assert.deepEqual(texts('{"a":{"id":1},"b":[{"name":"n"}]}'), NONE);
  assert.deepEqual(texts('[{"id":1}]'), NONE);
  assert.deepEqual(texts('[[{"id":1}],{"name":"n"}]'), NONE);
  assert.deepEqual(texts('"id"'), NONE);
});

Deno.test("readMembers() compares the names of members decoded", () => {
  for (const name of ["\\u0069d", "i\\u0064", "\\u0069\\u0064"]) {
    assert.deepEqual(texts(`{"${name}":5}`), ["5", undefined, undefined]);
  }
  const others = ["ID", "id ", " id", "i", "idx", "\\\\u0069d", "id\\u0000"];
  for (const name of [...others, ""]) {
    assert.deepEqual(texts(`{"${name}":5}`), NONE, name);
  }
});

Deno.test("readMembers() returns members named as those of Object.prototype only if the text has them", () => {
  const requested = ["__proto__", "constructor", "toString"];
  const none = { kind: "object", members: NONE };
  assert.deepEqual(readMembers("{}", requested), none);
  assert.deepEqual(readMembers('{"__proto__":1,"toString":"x"}', requested), {
    kind: "object",
    members: [
      { kind: "number", text: "1", isDuplicate: false },
      undefined,
      { kind: "string", text: "x", isDuplicate: false },
    ],
  });
});

Deno.test("readMembers() marks a requested member of the outermost object as a duplicate, and returns the first", () => {
  for (
    const [text, ...expected] of [
      ['{"id":1,"name":"a"}', "1", "a", undefined],
      ['{"id":1,"name":"a","id":"second"}', ["1"], "a", undefined],
      ['{"tag":1,"tag":"","x":0,"tag":[]}', undefined, undefined, ["1"]],
      ['{"\\u0069d":1,"id":null}', ["1"], undefined, undefined],
      ['{"id":1,"x":0,"x":0,"y":{"id":2}}', "1", undefined, undefined],
    ] as const
  ) {
    const found = acceptJson(text).members.map((member) =>
      member?.isDuplicate ? [member.text] : member?.text
    );
    assert.deepEqual(found, expected, text);
  }
});
