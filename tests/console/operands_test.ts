import assert from "node:assert/strict";
import { readId } from "../../src/console/operands.ts";
import { ID_MAX, ID_MIN } from "../../src/limits.ts";

Deno.test("readId() reads every int64, and refuses anything else", () => {
  for (
    const [text, id] of [
      ["0", 0n],
      ["-0", 0n],
      ["007", 7n],
      ["9007199254740993", 2n ** 53n + 1n],
      [`${ID_MIN}`, ID_MIN],
      [`${ID_MAX}`, ID_MAX],
    ] as const
  ) assert.equal(readId(text), id);
  for (
    const text of [
      ...[`${ID_MIN - 1n}`, `${ID_MAX + 1n}`, "9".repeat(1_000), "1.0", "1e2"],
      ...["0x1", "1n", " 1", "1\n", "", "-", "+1", "٣", "-1x"],
    ]
  ) {
    assert.throws(() => readId(text), {
      name: "OperatorError",
      exitStatus: 2,
      message: `expected an id from ${ID_MIN} to ${ID_MAX}, got "${text}"`,
    });
  }
});
