import assert from "node:assert/strict";
import { ID_MAX, ID_MIN, QUOTE_CHARS_MAX } from "../../src/limits.ts";
import { InvalidText, parseNewPlant } from "../../src/plant/plant.ts";
import { acceptNewPlant, AN_ID, refuseNewPlant } from "../support/parsing.ts";
import { type Random, withSeed } from "../support/random.ts";
import { toBytes } from "../support/wire.ts";

/** Asserts that a number is read as an id. */
function assertId(source: string, id: bigint): void {
  const newPlant = acceptNewPlant(`{"id":${source},"name":"a"}`);
  assert.equal(newPlant.id, id, source);
}

/** Asserts that a number is refused and quoted, up to QUOTE_CHARS_MAX. */
function assertNotInt64(source: string): void {
  const quoted = source.length <= QUOTE_CHARS_MAX
    ? source
    : `${source.slice(0, QUOTE_CHARS_MAX)}…`;
  const message = refuseNewPlant(`{"id":${source},"name":"a"}`);
  assert.equal(message, `id: expected ${AN_ID}, got ${quoted}`);
}

// The random test below has ordinary spellings.
Deno.test("parseNewPlant() accepts an integer by its value, up to both ends of int64", () => {
  for (
    const [source, id] of [
      [`${ID_MAX}`, ID_MAX],
      [`${ID_MIN}`, ID_MIN],
      ["0e999999999", 0n],
      ["0e-999999999", 0n],
      [`1${"0".repeat(5000)}e-5000`, 1n],
      [`0.${"0".repeat(5000)}7e5001`, 7n],
      [`0e-${"9".repeat(5000)}`, 0n],
    ] as const
  ) assertId(source, id);
});

Deno.test("parseNewPlant() refuses a number that is not an int64, and quotes the start of it", () => {
  for (
    const source of [
      `${ID_MAX + 1n}`,
      `${ID_MIN - 1n}`,
      "0.99999999999999999999",
      "1e999999999",
      "1e-999999999",
      "1".repeat(QUOTE_CHARS_MAX),
      "1".repeat(QUOTE_CHARS_MAX + 1),
    ]
  ) assertNotInt64(source);
});

// If the time were quadratic in the length of the number, this would take
// minutes.
Deno.test("parseNewPlant() parses numbers of a million digits", () => {
  const zeros = "0".repeat(2 ** 20);
  assertId(`1.${zeros}`, 1n);
  assertId(`1e${zeros}1`, 10n);
  for (
    const source of [
      `1${zeros}`,
      `1.${zeros}1`,
      `0.${zeros}1`,
      `1${zeros}1.${zeros}`,
      `1e-1${zeros}`,
    ]
  ) assertNotInt64(source);
});

const ROUNDS = 20_000;

/** Returns the int64 of a number, by exact fractions: slow and simple. */
function modelInt64(source: string): bigint | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  assert.ok(match, source);
  const [, sign, whole = "", fraction = "", exponent = "0"] = match;
  let numerator = BigInt(whole + fraction);
  let denominator = 10n ** BigInt(fraction.length);
  const power = BigInt(exponent.replace("+", ""));
  if (power >= 0n) numerator *= 10n ** power;
  else denominator *= 10n ** -power;
  if (numerator % denominator !== 0n) return undefined;
  const value = (sign === "-" ? -1n : 1n) * (numerator / denominator);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** Returns a number near an integer or an end of int64, in any spelling. */
function randomNumber(random: Random): string {
  const digits = randomDigits(random);
  const point = random.int(0, digits.length);
  const whole = digits.slice(0, point).replace(/^0+/, "") || "0";
  const fraction = digits.slice(point);
  const power = random.chance(0.5)
    ? fraction.length + random.int(-3, 3)
    : random.int(-25, 25);
  const powerSign = power < 0 ? "-" : random.pick(["", "+"]);
  const exponent = random.chance(0.6)
    ? random.pick(["e", "E"]) + powerSign + "0".repeat(random.int(0, 2)) +
      Math.abs(power)
    : "";
  const sign = random.chance(0.5) ? "-" : "";
  return sign + whole + (fraction === "" ? "" : `.${fraction}`) + exponent;
}

function randomDigits(random: Random): string {
  const ends = ["9223372036854775807", "9223372036854775808"];
  let digits = random.pick([...ends, "1", ""]);
  if (digits === "" || random.chance(0.3)) {
    const length = random.int(1, 22);
    const digit = () => random.chance(0.4) ? 0 : random.int(0, 9);
    digits = Array.from({ length }, digit).join("");
  }
  return digits + "0".repeat(random.chance(0.5) ? random.int(0, 5) : 0);
}

Deno.test("parseNewPlant() agrees with exact fractions on random ids", () =>
  withSeed((random) => {
    let integers = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const source = randomNumber(random);
      const expected = modelInt64(source);
      if (expected !== undefined) integers++;
      const newPlant = parseNewPlant(
        toBytes(`{"id":${source},"name":""}`),
      );
      const id = newPlant instanceof InvalidText ? undefined : newPlant.id;
      assert.equal(id, expected, `round ${round}: ${source}`);
    }
    // Neither outcome is rare, so both are tested.
    const share = integers / ROUNDS;
    assert.ok(share > 0.1 && share < 0.9, `${share} integers`);
  }));
