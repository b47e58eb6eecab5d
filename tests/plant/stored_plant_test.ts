import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import {
  formatNewPlant,
  isSamePlant,
  type NewPlant,
} from "../../src/plant/plant.ts";
import { acceptNewPlant } from "../support/new_plant.ts";

/** Returns a plant whose line has a size. */
function plantOfLine(bytes: number, id: bigint): NewPlant {
  const name = "a".repeat(bytes - `{"id":${id},"name":""}`.length);
  return { id, plant: { name } };
}

Deno.test("formatNewPlant() returns a line that parseNewPlant() reads", () => {
  for (
    const newPlant of [
      { id: -7n, plant: { name: 'a"\n🌵', tag: "" } },
      { id: 1_000n, plant: { name: "" } },
      plantOfLine(BODY_BYTES_MAX, 1n),
      { id: 1n, plant: { name: "é".repeat(BODY_BYTES_MAX / 2 - 20) } },
    ]
  ) {
    const line = formatNewPlant(newPlant) ?? "none";
    assert.ok(!line.includes("\n"));
    assert.deepEqual(acceptNewPlant(line), newPlant);
  }
});

Deno.test("formatNewPlant() shortens the id only if the line does not fit a body", () => {
  const plant = { name: "a", tag: "b" };
  assert.equal(
    formatNewPlant({ id: 1_000n, plant }),
    '{"id":1000,"name":"a","tag":"b"}',
  );
  for (
    const [id, spelled, saved] of [
      [1_000n, "1e3", 1],
      [-(10n ** 18n), "-1e18", 15],
      [10_200_000n, "102e5", 3],
    ] as const
  ) {
    const newPlant = plantOfLine(BODY_BYTES_MAX + saved, id);
    const line = formatNewPlant(newPlant) ?? "none";
    assert.ok(line.startsWith(`{"id":${spelled},`), line.slice(0, 30));
    assert.deepEqual(acceptNewPlant(line), newPlant);
    assert.equal(
      formatNewPlant(plantOfLine(BODY_BYTES_MAX + saved + 1, id)),
      undefined,
    );
  }
});

Deno.test("formatNewPlant() returns nothing for a plant that no line can represent", () => {
  for (const text of ["\ud83c", "🌵\udf35", "観".repeat(BODY_BYTES_MAX / 2)]) {
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
