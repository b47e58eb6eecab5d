import assert from "node:assert/strict";
import {
  hasFixedWalReset,
  sqliteVersion,
} from "../../../src/store/files/sqlite.ts";

Deno.test("hasFixedWalReset() accepts SQLite 3.51.3 and later, as this Deno has it", () => {
  for (
    const [version, isFixed] of [
      ["2.99.99", false],
      ["3.7.0", false],
      ["3.50.4", false],
      ["3.51.2", false],
      ["3.51.3", true],
      ["3.51.10", true],
      ["3.52.0", true],
      ["3.100.1", true],
      ["4.0.0", true],
    ] as const
  ) assert.equal(hasFixedWalReset(version), isFixed, version);
  assert.match(sqliteVersion(), /^3\.\d+\.\d+$/);
});
