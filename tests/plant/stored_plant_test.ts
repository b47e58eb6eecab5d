import assert from "node:assert/strict";
import { LINE_BYTES_MAX } from "../../src/console/lines.ts";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import {
  countChars,
  formatNewPlant,
  isSamePlant,
  toPlant,
} from "../../src/plant/plant.ts";
import { PLANT } from "../../src/reference/openapi.ts";
import { acceptNewPlant, refuseNewPlant } from "../support/parsing.ts";
import { PLANT_MEMBERS, WHOLE } from "../support/plants.ts";
import { toBytes } from "../support/wire.ts";

Deno.test("every described member of a plant is parsed, compared, read and formatted", () => {
  assert.deepEqual(Object.keys(PLANT.properties), PLANT_MEMBERS);
  const bodyOf = (members: object) => JSON.stringify({ id: 1, ...members });
  const newPlant = { id: 1n, plant: WHOLE };
  assert.deepEqual(acceptNewPlant(bodyOf(WHOLE)), newPlant);
  assert.deepEqual(toPlant({ ...WHOLE, "not described": 1 }), WHOLE);
  assert.equal(formatNewPlant(newPlant), bodyOf(WHOLE));
  assert.ok(isSamePlant(WHOLE, { ...WHOLE }));
  for (const name of PLANT_MEMBERS) {
    const members = { ...WHOLE, [name]: "" };
    const other = acceptNewPlant(bodyOf(members));
    assert.ok(!isSamePlant(WHOLE, other.plant), name);
    refuseNewPlant(bodyOf({ ...WHOLE, [name]: {} }));
    assert.equal(toPlant({ ...WHOLE, [name]: {} }), null, name);

    const entries = Object.entries(WHOLE).filter(([it]) => it !== name);
    const rest = Object.fromEntries(entries);
    if (PLANT.required.includes(name)) {
      refuseNewPlant(bodyOf(rest));
      assert.equal(toPlant(rest), null, name);
    } else {
      const partial = acceptNewPlant(bodyOf(rest));
      assert.deepEqual(partial.plant, rest);
      assert.deepEqual(toPlant(rest), rest);
      assert.equal(formatNewPlant(partial), bodyOf(rest));
      // Absent is not empty.
      assert.ok(!isSamePlant(partial.plant, other.plant), name);
    }
  }
});

Deno.test("countChars() counts every member", () => {
  assert.equal(countChars({ name: "" }), 0);
  for (const name of PLANT_MEMBERS) {
    assert.equal(countChars({ name: "", [name]: "🌵" }), 2, name);
  }
});

Deno.test("toPlant() returns null for a member that is not valid Unicode", () => {
  for (const name of PLANT_MEMBERS) {
    assert.equal(toPlant({ ...WHOLE, [name]: "🌵\udf35" }), null, name);
  }
});

Deno.test("toPlant() returns null for a value that is not an object", () => {
  for (const value of [null, undefined, "Monstera", 7n, ["Monstera"]]) {
    assert.equal(toPlant(value), null);
  }
});

/** Letters as a body may spell them: raw with 1 to 4 bytes, or escaped. */
const LETTERS: readonly string[] = [
  "x",
  "\x7f",
  "é",
  "Ā",
  "\u2028",
  "竹",
  "\u{10ffff}",
  "\\u0000",
  "\\n",
  '\\"',
  "\\/",
  "\\u00e9",
  "\\ud83c\\udf31",
];

/** Returns a body of BODY_BYTES_MAX: one member has a letter over and over. */
function largestBody(member: string, letter: string): string {
  const others = member === "name" ? "" : '"name":"",';
  const [start, end] = [`{"id":-9e18,${others}"${member}":"`, '"}'];
  const room = BODY_BYTES_MAX - start.length - end.length;
  const { length } = toBytes(letter);
  const letters = letter.repeat(room / length) + "x".repeat(room % length);
  return start + letters + end;
}

Deno.test("formatNewPlant() returns a line for an import: that of the largest body is not too long", () => {
  for (const member of PLANT_MEMBERS) {
    const lengths = LETTERS.map((letter) => {
      const newPlant = acceptNewPlant(largestBody(member, letter));
      const line = formatNewPlant(newPlant);
      assert.ok(!line.includes("\n"));
      assert.deepEqual(acceptNewPlant(line), newPlant);
      return toBytes(line).length;
    });
    assert.equal(Math.max(...lengths), BODY_BYTES_MAX + 15);
  }
  assert.ok(BODY_BYTES_MAX + 15 <= LINE_BYTES_MAX);
});
