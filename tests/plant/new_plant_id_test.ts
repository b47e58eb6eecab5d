import assert from "node:assert/strict";
import { ID_MAX, ID_MIN, QUOTE_CHARS_MAX } from "../../src/limits.ts";
import {
  acceptNewPlant,
  AN_ID,
  refuseNewPlant,
  withId,
} from "../support/new_plant.ts";

Deno.test("parseNewPlant() keeps every digit of an id, up to both ends of int64", () => {
  const ids = [
    ...[0n, 1n, -1n, 999_999_999_999_999_999n, 10n ** 18n, -(10n ** 18n)],
    ...[2n ** 53n, 2n ** 53n + 1n, ID_MAX - 1n, ID_MAX, ID_MIN, ID_MIN + 1n],
  ];
  for (const id of ids) {
    for (const text of withId(String(id))) {
      assert.equal(acceptNewPlant(text).id, id);
    }
  }
});

/** Spellings of integers, and their values. */
const INTEGERS = [
  ["-0", 0n],
  ["0e999999999", 0n],
  ["0e-999999999", 0n],
  ["1E+02", 100n],
  ["100e-2", 1n],
  ["0.1e1", 1n],
  ["0.00012e5", 12n],
  ["1.50e1", 15n],
  ["9223372036854775807.000", ID_MAX],
  ["9.223372036854775807e18", ID_MAX],
  ["92233720368547758070e-1", ID_MAX],
  ["-9223372036854775808.0", ID_MIN],
  ["-0.9223372036854775808e19", ID_MIN],
  [`1${"0".repeat(5000)}e-5000`, 1n],
  [`0.${"0".repeat(5000)}7e5001`, 7n],
  [`1e${"0".repeat(5000)}2`, 100n],
  [`1.${"0".repeat(5000)}`, 1n],
  [`0e${"9".repeat(5000)}`, 0n],
  [`0e-${"9".repeat(5000)}`, 0n],
] as const;

Deno.test("parseNewPlant() accepts every spelling of an integer by its value", () => {
  for (const [source, id] of INTEGERS) {
    for (const text of withId(source)) {
      assert.equal(acceptNewPlant(text).id, id, source);
    }
  }
});

const NOT_INT64 = [
  String(ID_MAX + 1n),
  String(ID_MIN - 1n),
  String(2n ** 64n),
  "1.5",
  "0.5",
  "0.99999999999999999999",
  "9007199254740992.5",
  "1e-1",
  "15e-1",
  "1e19",
  "1e999999999",
  "1e-999999999",
  "9223372036854775807.1",
  "-9223372036854775809.0",
  "0.9223372036854775808e19",
];

Deno.test("parseNewPlant() refuses a number that is not an int64, and quotes it", () => {
  for (const source of NOT_INT64) {
    for (const text of withId(source)) {
      assert.equal(
        refuseNewPlant(text),
        `id: expected ${AN_ID}, got ${source}`,
      );
    }
  }
});

Deno.test("parseNewPlant() quotes a number of up to QUOTE_CHARS_MAX characters in full", () => {
  const digits = "1".repeat(QUOTE_CHARS_MAX);
  for (
    const [source, found] of [[digits, digits], [`${digits}1`, `${digits}…`]]
  ) {
    assert.equal(
      refuseNewPlant(`{"id":${source},"name":"a"}`),
      `id: expected ${AN_ID}, got ${found}`,
    );
  }
});

// If the time were quadratic in the length of the number, this would take
// minutes.
Deno.test("parseNewPlant() parses numbers of a million digits", () => {
  const zeros = "0".repeat(2 ** 20);
  for (
    const [source, id] of [
      [`1${zeros}`, undefined],
      [`1.${zeros}`, 1n],
      [`1.${zeros}1`, undefined],
      [`0.${zeros}1`, undefined],
      [`1e${zeros}1`, 10n],
      [`1${zeros}1.${zeros}`, undefined],
      [`1e-1${zeros}`, undefined],
    ] as const
  ) {
    for (const text of withId(source)) {
      if (id !== undefined) assert.equal(acceptNewPlant(text).id, id);
      else {
        assert.equal(
          refuseNewPlant(text),
          `id: expected ${AN_ID}, got ${source.slice(0, QUOTE_CHARS_MAX)}…`,
        );
      }
    }
  }
});
