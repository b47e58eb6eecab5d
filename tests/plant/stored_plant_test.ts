import assert from "node:assert/strict";
import { BODY_BYTES_MAX, LINE_BYTES_MAX } from "../../src/limits.ts";
import {
  countChars,
  formatNewPlant,
  isSamePlant,
  toPlant,
} from "../../src/plant/plant.ts";
import { PLANT } from "../../src/reference/api.ts";
import {
  acceptNewPlant,
  drawLargestBody,
  refuseNewPlant,
  SHORT_IDS,
} from "../support/new_plant.ts";
import {
  OTHER,
  PLANT_MEMBERS,
  STRING_MEMBERS,
  WHOLE,
} from "../support/plants.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { toBytes } from "../support/wire.ts";

Deno.test("every described member of a plant is parsed, compared, counted, read and formatted", () => {
  assert.deepEqual(Object.keys(PLANT.properties), PLANT_MEMBERS);
  const bodyOf = (members: object) => JSON.stringify({ id: 1, ...members });
  const newPlant = { id: 1n, plant: WHOLE };
  assert.deepEqual(acceptNewPlant(bodyOf(WHOLE)), newPlant);
  assert.deepEqual(toPlant({ ...WHOLE, "not described": 1 }), WHOLE);
  assert.equal(formatNewPlant(newPlant), bodyOf(WHOLE));
  assert.ok(isSamePlant(WHOLE, { ...WHOLE }));
  const others = new Map<string, unknown>(Object.entries(OTHER));
  for (const name of PLANT_MEMBERS) {
    const members = { ...WHOLE, [name]: others.get(name) };
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

Deno.test("every member that is a string is counted, and stored only if it is valid Unicode", () => {
  assert.equal(countChars({ name: "" }), 0);
  for (const name of STRING_MEMBERS) {
    assert.equal(countChars({ name: "", [name]: "🌵" }), 2, name);
    assert.equal(toPlant({ ...WHOLE, [name]: "🌵\udf35" }), null, name);
  }
});

Deno.test("toPlant() returns null for a value that is not an object", () => {
  for (const value of [null, undefined, "Monstera", 7n, ["Monstera"]]) {
    assert.equal(toPlant(value), null);
  }
});

Deno.test("formatNewPlant() returns a line for an import: that of the largest body is not too long", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  let longest = 0;
  for (let round = 0; round < 30; round++) {
    for (const id of SHORT_IDS) {
      const newPlant = acceptNewPlant(drawLargestBody(random, id));
      const line = formatNewPlant(newPlant);
      longest = Math.max(longest, toBytes(line).length);
      assert.ok(!line.includes("\n"), `SEED=${seed}`);
      assert.deepEqual(acceptNewPlant(line), newPlant, `SEED=${seed}`);
    }
  }
  // 19 digits instead of 4 characters.
  assert.equal(longest, BODY_BYTES_MAX + 15, `SEED=${seed}`);
  assert.ok(longest <= LINE_BYTES_MAX);
});
