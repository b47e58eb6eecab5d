import assert from "node:assert/strict";
import { idIn, isPlantKey, keyOf } from "../../src/store/entries.ts";

Deno.test("isPlantKey() and idIn() accept the keys of plants alone, idIn() also longer ones", () => {
  assert.deepEqual(keyOf(1n), ["plants", 1n]);
  for (
    const [key, isPlant, id] of [
      [["plants", 1n], true, 1n],
      [["plants", 1n, "note"], false, 1n],
      [["plants"], false, undefined],
      [["plants", 1], false, undefined],
      [["other", 1n], false, undefined],
    ] as const
  ) {
    assert.equal(isPlantKey(key), isPlant);
    assert.equal(idIn(key), id);
  }
});
