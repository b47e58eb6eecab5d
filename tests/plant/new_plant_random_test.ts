import assert from "node:assert/strict";
import { ErrorReply } from "../../src/errors.ts";
import { ID_MAX } from "../../src/limits.ts";
import { parseNewPlant } from "../../src/plant/plant.ts";
import { Random, seedOfRun } from "../support/random.ts";

const ROUNDS = 20_000;

/** Asserts that neither of two outcomes is rare, so that both are tested. */
function assertBothTested(count: number, seed: number): void {
  const share = count / ROUNDS;
  assert.ok(share > 0.1 && share < 0.9, `SEED=${seed}: ${count} of ${ROUNDS}`);
}

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
    const id = newPlant instanceof ErrorReply ? undefined : newPlant.id;
    assert.equal(id, expected, `SEED=${seed}, round ${round}: ${source}`);
  }
  assertBothTested(integers, seed);
});

const IDS = [
  ...["7", "-7", "0", "-0", "01", "1.0", "1e1", String(ID_MAX)],
  ...["1".repeat(18), "1".repeat(19)],
] as const;

/** Parts of strings at the edges of what the fast path accepts. */
const STRING_PARTS = [
  ...["", "a", "é", "観", "🌵", "\ud83c", "\ud7ff", "\ue000", "\uffff"],
  ...["\t", "\x7f", "\\n", "\\", '"', "]"],
] as const;

/** Returns a text that is, or nearly is, in the spelling of the fast path. */
function randomText(random: Random): string {
  const string = () =>
    `"${random.pick(STRING_PARTS)}${random.pick(STRING_PARTS)}"`;
  const tokens = [
    ...["{", '"id"', ":", random.pick(IDS)],
    ...[",", '"name"', ":", string()],
    ...(random.chance(0.3) ? [] : [",", '"tag"', ":", string()]),
    "}",
  ] as const;
  const changed = [...tokens];
  const anywhere = () => random.int(0, changed.length);
  if (random.chance(0.3)) {
    changed.splice(anywhere(), random.int(0, 2), random.pick(tokens));
  }
  if (random.chance(0.5)) {
    const space = random.pick([" ", "  ", "\n", "\u00a0"]);
    changed.splice(anywhere(), 0, space);
  }
  return changed.join("");
}

Deno.test("parseNewPlant() gives the same result on the fast path as with the JSON reader", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  const withoutLine = (message: string) => message.replace(/^line \d+/, "");
  let accepted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const text = randomText(random);
    const newPlant = parseNewPlant(text);
    // The fast path accepts no line before the object. It only changes the
    // position in a message.
    const viaReader = parseNewPlant(`\n${text}`);
    const context = `SEED=${seed}, round ${round}: ${JSON.stringify(text)}`;
    if (newPlant instanceof ErrorReply && viaReader instanceof ErrorReply) {
      assert.equal(newPlant.name, viaReader.name, context);
      assert.equal(
        withoutLine(newPlant.message),
        withoutLine(viaReader.message),
        context,
      );
    } else {
      assert.deepEqual(newPlant, viaReader, context);
      accepted++;
    }
  }
  assertBothTested(accepted, seed);
});
