import assert from "node:assert/strict";
import { JSON_DEPTH_MAX } from "../../src/limits.ts";
import { acceptJson, refuseJson } from "../support/parsing.ts";

const TOO_DEEP =
  `expected at most ${JSON_DEPTH_MAX} levels of arrays and objects`;

/** Returns a text of `depth` levels; `opening` has one level or two. */
function nest(opening: string, closing: string, depth: number): string {
  const levels = opening.startsWith("[0") ? 2 : 1;
  const count = Math.floor(depth / levels);
  const value = depth % levels === 0 ? "0" : "[0]";
  return opening.repeat(count) + value + closing.repeat(count);
}

for (
  const [opening, closing] of [
    ["[", "]"],
    ['{"a":', "}"],
    ['[0,{"a":0,"b":', ',"c":0}]'],
  ] as const
) {
  Deno.test(`readMembers() accepts JSON_DEPTH_MAX levels of ${opening} and refuses one more`, () => {
    acceptJson(nest(opening, closing, JSON_DEPTH_MAX));
    const message = refuseJson(nest(opening, closing, JSON_DEPTH_MAX + 1));
    assert.match(message, new RegExp(`^1:\\d+: ${TOO_DEEP}, found "[[{]"$`));
  });
}

Deno.test("readMembers() counts levels, not arrays and objects", () => {
  const row = "[".repeat(JSON_DEPTH_MAX - 1) + "]".repeat(JSON_DEPTH_MAX - 1);
  acceptJson(`[${Array(10).fill(row).join()}]`);
  acceptJson(`{${Array(10).fill(`"x":${row}`).join()}}`);
});

// Each takes a tenth of a second at most. If the time were quadratic in the
// length of the text, each would take minutes.
for (
  const [start, part, end, isJson] of [
    ['{"name":"', "\\n", '"}', true],
    ['{"name":"', "\\u00e9", '"}', true],
    ["{", '"\\u0061":1,', '"id":2}', true],
    ["", " ", "", false],
    ["[", "[],", "[]]", true],
    ['"', "🌵", "", false],
  ] as const
) {
  const verb = isJson ? "accepts" : "refuses";
  const name = JSON.stringify(`${start}${part}…${end}`);
  Deno.test(`readMembers() ${verb} a million characters of ${name}`, () => {
    const text = start + part.repeat(2 ** 20 / part.length) + end;
    if (isJson) acceptJson(text);
    else refuseJson(text);
  });
}
