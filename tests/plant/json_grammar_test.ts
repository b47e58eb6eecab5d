import assert from "node:assert/strict";
import { NotJson, readMembers } from "../../src/plant/json.ts";
import { acceptJson, isJson } from "../support/parsing.ts";
import { type Random, withSeed } from "../support/random.ts";

const NUMBERS = [
  "0",
  "-0",
  "7",
  "10",
  "9007199254740993",
  "-9223372036854775808",
  "123456789012345678901234567890",
  "0.0",
  "-0.5",
  "3.1415926535897932384626433",
  "0e0",
  "0E9",
  "2e3",
  "2e+3",
  "2E-3",
  "4e007",
  "-6.05E+01",
  "1e999999999",
  "1e-999999999",
];

const ARRAYS = [
  "[]",
  "[[]]",
  "[1,2]",
  "[ 1 ,\t2\n,\r3 ]",
  '[null,true,false,"",0,{},[]]',
];

const OBJECTS = [
  "{}",
  "{ }",
  '{"":0}',
  '{"a":1,"a":2}',
  '{ "a" : 1 , "b"\t:\n2\r}',
  '{"__proto__":1,"constructor":{"prototype":[]}}',
  String.raw`{"\u0000\n":[]}`,
];

const STRINGS = [
  '""',
  '"Monstera"',
  '"[{,:}]"',
  '"Fleißiges Lieschen"',
  '"🌵"',
  '"\u007f\u0080\u00a0"',
  '"\u2028\u2029\ufeff\uffff"',
  ...String.raw`"\"" "\\" "\/" "\b\f\n\r\t" "\\\n" "\\u0041"`.split(" "),
  ...String.raw`"\u00411" "\u00e9\u00E9\u00Ee" "\u0000"`.split(" "),
  ...String.raw`"\u0022\u005c" "\uD83C\udf35" "\ud83c"`.split(" "),
  String.raw`"\udf35\ud83c"`,
];

const VALUES = [
  ...NUMBERS,
  ...STRINGS,
  ...ARRAYS,
  ...OBJECTS,
  "true",
  "false",
  "null",
];

Deno.test("readMembers() accepts every value at every place, and keeps the spelling of numbers", () => {
  for (const value of VALUES) {
    for (
      const text of [
        value,
        `[${value}]`,
        `[0,${value},0]`,
        `{"id":${value}}`,
        `{"other":${value}}`,
        `{"other":[{"id":${value},"a":0}],"b":0}`,
      ]
    ) assert.ok(compare(text), text);
  }
  for (const number of NUMBERS) {
    const { members } = acceptJson(`{"id":${number}}`);
    assert.equal(members.get("id")?.text, number);
  }
});

const ROUNDS = 6000;
const MUTATIONS = 3;

/** Texts to insert into a JSON text. */
const INSERTIONS = [
  ..."\"\\{}[],:01.eE+-tnfu/' \n\t\r\0\x1f\x7f\v",
  "true",
  "null",
  "\ufeff",
  "\u00a0",
  "é",
  "🌵",
  "\ud83c",
  "\\u00",
] as const;

const NAMES = [
  "id",
  "name",
  "t\\u0061g",
  "ID",
  "id ",
  "x",
  "__proto__",
  "",
];

/** Returns up to `lengthMax` random items. */
function list(random: Random, lengthMax: number, make: () => string): string[] {
  return Array.from({ length: random.int(0, lengthMax) }, make);
}

/** Returns one of the spellings of a random string. */
function randomString(random: Random): string {
  const units = list(random, 6, () => {
    const code = random.pick([random.int(0, 0x7f), random.int(0, 0xffff)]);
    const hex = code.toString(16).padStart(4, "0");
    return random.chance(0.2)
      ? `\\u${random.pick([hex, hex.toUpperCase()])}`
      : JSON.stringify(String.fromCharCode(code)).slice(1, -1);
  });
  return `"${units.join("")}"`;
}

/** Returns a value with white space around it, of at most so many levels. */
function randomValue(random: Random, levels: number): string {
  const space = random.pick(["", "", "", "", " ", "\t", "\n", "\r"]);
  const nested = () => randomValue(random, levels - 1);
  const member = () => `${space}"${random.pick(NAMES)}":${nested()}`;
  const value = levels === 0 || random.chance(0.3)
    ? random.pick([random.pick(VALUES), randomString(random)])
    : random.chance(0.3)
    ? `[${list(random, 3, nested).join()}]`
    : `{${list(random, 5, member).join()}}`;
  return space + value + space;
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
  const read = readMembers(text);
  if (!isJson(text)) {
    assert.ok(read instanceof NotJson, "JSON.parse refuses it");
    return false;
  }
  if (read instanceof NotJson) {
    assert.fail(`JSON.parse accepts it: ${read.message}`);
  }
  const value: unknown = JSON.parse(text);
  assert.equal(read.kind, kindOf(value));
  const object: object = read.kind === "an object" ? Object(value) : {};
  assert.deepEqual(new Set(read.members.keys()), new Set(Object.keys(object)));
  for (const [name, expected] of Object.entries(object)) {
    const member = read.members.get(name);
    // JSON.parse returns the last of duplicate members.
    if (member === undefined || member.isDuplicate) continue;
    assert.equal(member.kind, kindOf(expected));
    if (member.kind === "a string") assert.equal(member.text, expected);
    else if (member.kind === "a number") {
      assert.equal(Number(member.text), expected);
    } else assert.equal(member.text, "");
  }
  return true;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

Deno.test("readMembers() agrees with JSON.parse on random texts and their mutations", () =>
  withSeed((random) => {
    let accepted = 0;
    let refused = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const names = list(random, 5, () => random.pick(NAMES));
      const members = names
        .map((name) => `"${name}":${randomValue(random, 3)}`);
      let text = `{${members.join()}}`;
      try {
        assert.ok(compare(text));
        for (const [name, { isDuplicate }] of acceptJson(text).members) {
          const spelling = name === "tag" ? "t\\u0061g" : name;
          const count = names.filter((it) => it === spelling).length;
          assert.equal(isDuplicate, count > 1, name);
        }
        text = randomValue(random, 5);
        assert.ok(compare(text));
        for (let mutation = 0; mutation < MUTATIONS; mutation++) {
          text = mutate(random, text);
          if (compare(text)) accepted++;
          else refused++;
        }
      } catch (cause) {
        throw new Error(`round ${round}: ${JSON.stringify(text)}`, { cause });
      }
    }
    // Otherwise the mutations would test one outcome only.
    const counts = `${accepted} accepted, ${refused} refused`;
    assert.ok(accepted > 1000 && refused > 1000, counts);
  }));
