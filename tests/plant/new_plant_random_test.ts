import assert from "node:assert/strict";
import { ApiError } from "../../src/errors.ts";
import { parseNewPlant } from "../../src/plant/plant.ts";
import { Random, seedOfRun } from "../support/random.ts";

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
  let digits = random.pick([
    "9223372036854775807",
    "9223372036854775808",
    "1",
    "",
  ]);
  if (digits === "" || random.chance(0.3)) {
    const length = random.int(1, 22);
    const digit = () => random.chance(0.4) ? 0 : random.int(0, 9);
    digits = Array.from({ length }, digit).join("");
  }
  return digits + "0".repeat(random.chance(0.5) ? random.int(0, 5) : 0);
}

Deno.test("parseNewPlant() agrees with exact fractions on random ids", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  let integers = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const source = randomNumber(random);
    const expected = modelInt64(source);
    if (expected !== undefined) integers++;
    const newPlant = parseNewPlant(`{"id":${source},"name":""}`);
    const id = newPlant instanceof ApiError ? undefined : newPlant.id;
    assert.equal(id, expected, `SEED=${seed}, round ${round}: ${source}`);
  }
  // Neither outcome is rare, so both are tested.
  const share = integers / ROUNDS;
  assert.ok(share > 0.1 && share < 0.9, `SEED=${seed}: ${share} integers`);
});
