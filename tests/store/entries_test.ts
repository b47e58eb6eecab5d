import assert from "node:assert/strict";
import { isPlantKey, keyOf } from "../../src/store/entries.ts";

Deno.test("isPlantKey() accepts the keys of plants alone", () => {
  assert.deepEqual(keyOf(1n), ["plants", 1n]);
  for (
    const [key, isPlant] of [
      [["plants", 1n], true],
      [["plants", 1n, "note"], false],
      [["plants"], false],
      [["plants", 1], false],
      [["other", 1n], false],
    ] as const
  ) {
    assert.equal(isPlantKey(key), isPlant);
  }
});
