import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { formatNewPlant, isSamePlant } from "../../src/plant/plant.ts";
import { acceptNewPlant } from "../support/new_plant.ts";

Deno.test("formatNewPlant() returns a line that parseNewPlant() reads", () => {
  for (
    const newPlant of [
      { id: -7n, plant: { name: 'a"\n🌵', tag: "" } },
      { id: 10n ** 18n, plant: { name: "" } },
      // Larger than any body.
      { id: 1n, plant: { name: "\0".repeat(BODY_BYTES_MAX), tag: "é" } },
    ]
  ) {
    const line = formatNewPlant(newPlant) ?? "none";
    assert.ok(!line.includes("\n"));
    assert.deepEqual(acceptNewPlant(line), newPlant);
  }
});

Deno.test("formatNewPlant() returns nothing for a plant with an unpaired surrogate", () => {
  for (const text of ["\ud83c", "🌵\udf35"]) {
    const plants = [{ name: text }, { name: "", tag: text }];
    for (const plant of plants) {
      assert.equal(formatNewPlant({ id: 1n, plant }), undefined);
    }
  }
});

Deno.test("isSamePlant() compares the name and the tag, and distinguishes an empty tag from none", () => {
  const plants = [
    { name: "ab" },
    { name: "aB" },
    { name: "ab", tag: "" },
    { name: "a", tag: "b" },
    { name: "a", tag: "c" },
  ];
  for (const [i, one] of plants.entries()) {
    for (const [j, other] of plants.entries()) {
      assert.equal(isSamePlant(one, { ...other }), i === j);
    }
  }
});
