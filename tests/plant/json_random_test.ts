import assert from "node:assert/strict";
import { readMembers } from "../../src/plant/json.ts";
import { Random, seedOfRun } from "../support/random.ts";
import { acceptJson, REQUESTED } from "../support/json.ts";

const ROUNDS = 6000;
const MUTATIONS = 3;

/** Texts to insert into a JSON text. */
const INSERTIONS = [
  '"',
  ..."\\{}[],:01.eE+-tnfu/' \n\t\r\0\x1f\x7f\v",
  "true",
  "null",
  "\ufeff",
  "\u00a0",
  "é",
  "🌵",
  "\\u00",
] as const;

/** A random JSON text. */
interface RandomText {
  readonly text: string;
  /** The names of its members, in order, if it is an object. */
  readonly names?: readonly string[];
}

function randomText(random: Random): RandomText {
  if (random.chance(0.2)) {
    return { text: withSpace(random, randomValue(random, 0)) };
  }
  const names = list(
    random,
    5,
    () => random.pick(["id", "name", "tag", "x", "__proto__", ""]),
  );
  const members = names.map((name) => {
    const value = withSpace(random, randomValue(random, 1));
    return `${withSpace(random, spell(random, name))}:${value}`;
  });
  return { text: withSpace(random, `{${members.join()}}`), names };
}

/** Returns up to `lengthMax` random items. */
function list<T>(random: Random, lengthMax: number, make: () => T): T[] {
  return Array.from({ length: random.int(0, lengthMax) }, make);
}

function randomValue(random: Random, depth: number): string {
  const nested = () => withSpace(random, randomValue(random, depth + 1));
  const name = () => withSpace(random, randomString(random));
  switch (random.int(depth < 4 ? 0 : 2, 8)) {
    case 0:
      return `[${list(random, 3, nested).join()}]`;
    case 1:
      return `{${list(random, 3, () => `${name()}:${nested()}`).join()}}`;
    case 2:
      return random.pick(["true", "false", "null"]);
    case 3:
    case 4:
    case 5:
      return randomNumber(random);
    default:
      return randomString(random);
  }
}

function randomNumber(random: Random): string {
  const digits = () => `${random.int(0, 9)}`;
  const sign = random.chance(0.3) ? "-" : "";
  const whole = random.chance(0.3)
    ? "0"
    : random.int(1, 9) + list(random, 20, digits).join("");
  const fraction = random.chance(0.3)
    ? `.${digits()}${list(random, 20, digits).join("")}`
    : "";
  const exponent = random.chance(0.3)
    ? random.pick(["e", "E"]) + random.pick(["", "+", "-"]) +
      random.int(0, 400)
    : "";
  return sign + whole + fraction + exponent;
}

function randomString(random: Random): string {
  const units = list(
    random,
    6,
    () =>
      random.pick(["a", "é", "観", "🌵", '"', "\\", "/", "\n", "\0", "\x7f"]) +
      (random.chance(0.1) ? String.fromCharCode(random.int(0, 0xffff)) : ""),
  );
  return spell(random, units.join(""));
}

/** Returns one of the spellings of a string. */
function spell(random: Random, value: string): string {
  const units = value.split("").map((unit) => {
    if (random.chance(0.1)) {
      const hex = unit.charCodeAt(0).toString(16).padStart(4, "0");
      return `\\u${random.chance(0.5) ? hex : hex.toUpperCase()}`;
    }
    if (unit === "/" && random.chance(0.5)) return "\\/";
    return JSON.stringify(unit).slice(1, -1);
  });
  return `"${units.join("")}"`;
}

function withSpace(random: Random, text: string): string {
  const space = () =>
    random.chance(0.1) ? random.pick([" ", "\t", "\n", "\r"]) : "";
  return space() + text + space();
}

/** Deletes, inserts or repeats a part of a text, or truncates it. */
function mutate(random: Random, text: string): string {
  const from = random.int(0, text.length);
  const to = Math.min(text.length, from + random.int(0, 3));
  switch (random.int(0, 3)) {
    case 0:
      return text.slice(0, from) + text.slice(to);
    case 1:
      return text.slice(0, from) + random.pick(INSERTIONS) + text.slice(to);
    case 2:
      return text.slice(0, to) + text.slice(from);
    default:
      return text.slice(0, from);
  }
}

/**
 * Asserts that `readMembers()` agrees with `JSON.parse`: at so few levels they
 * accept the same texts.
 * @returns whether they accept the text
 */
function compare(text: string): boolean {
  const read = readMembers(text, REQUESTED);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    assert.equal(typeof read, "string", "JSON.parse refuses it");
    return false;
  }
  if (typeof read === "string") assert.fail(`JSON.parse accepts it: ${read}`);
  assert.equal(read.kind, kindOf(value));
  const object = read.kind === "object" ? value : {};
  REQUESTED.forEach((name, i) => {
    const member = read.members[i];
    const expected = Object.getOwnPropertyDescriptor(object, name)?.value;
    assert.equal(member === undefined, expected === undefined, name);
    // JSON.parse returns the last of duplicate members.
    if (member === undefined || member.isDuplicate) return;
    assert.equal(member.kind, kindOf(expected));
    if (member.kind === "string") assert.equal(member.text, expected);
    else if (member.kind === "number") {
      assert.equal(Number(member.text), expected);
    } else assert.equal(member.text, "");
  });
  return true;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Returns what `isDuplicate` is for each requested member. */
function expectedDuplicates(names: readonly string[]): (boolean | undefined)[] {
  return REQUESTED.map((requested) => {
    const count = names.filter((name) => name === requested).length;
    return count === 0 ? undefined : count > 1;
  });
}

Deno.test("readMembers() agrees with JSON.parse on random texts and their mutations", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  let accepted = 0;
  let refused = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const { text, names } = randomText(random);
    let current = text;
    try {
      assert.ok(compare(text));
      if (names !== undefined) {
        assert.deepEqual(
          acceptJson(text).members.map((member) => member?.isDuplicate),
          expectedDuplicates(names),
        );
      }
      for (let mutation = 0; mutation < MUTATIONS; mutation++) {
        current = mutate(random, current);
        if (compare(current)) accepted++;
        else refused++;
      }
    } catch (cause) {
      throw new Error(
        `SEED=${seed}, round ${round}: ${JSON.stringify(current)}`,
        { cause },
      );
    }
  }
  // Otherwise the mutations would test one outcome only.
  assert.ok(
    accepted > 1000 && refused > 1000,
    `SEED=${seed}: ${accepted} accepted, ${refused} refused`,
  );
});
