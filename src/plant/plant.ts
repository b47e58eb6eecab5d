import { Refusal } from "../errors.ts";
import { ID_MAX, ID_MIN, QUOTE_CHARS_MAX } from "../limits.ts";
import { truncate } from "../messages.ts";
import { type JsonKind, type Member, readMembers } from "./json.ts";

/** A plant as stored and as returned: `Plant` in the API description. */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** A plant and the id to create it under: `NewPlant`. */
export interface NewPlant {
  /** An int64, exact. */
  readonly id: bigint;
  readonly plant: Plant;
}

/**
 * The most common spelling of a NewPlant: the members in this order and no
 * others, an id of at most 18 digits, strings without escapes and surrogates.
 * Matching it takes a fifth of the time of the JSON reader, which parses every
 * other spelling. Adjacent parts of the expression never match the same
 * character, so its time is linear.
 */
const FAST_PATH =
  /^\{"id": ?(-?(?:0|[1-9]\d{0,17})), ?"name": ?"([ !#-[\]-\ud7ff\ue000-\uffff]*)"(?:, ?"tag": ?"([ !#-[\]-\ud7ff\ue000-\uffff]*)")?\}$/;

/** An integer with so few digits that it is an int64. */
const SHORT_INTEGER = /^-?\d{1,18}$/;

const AN_ID = `an integer from ${ID_MIN} to ${ID_MAX}`;

/** Number of digits of the longest id. */
const ID_DIGITS_MAX = String(ID_MAX).length;

const KIND_NAMES: Readonly<Record<JsonKind, string>> = {
  string: "a string",
  number: "a number",
  object: "an object",
  array: "an array",
  boolean: "a boolean",
  null: "null",
};

function refuse(message: string): Refusal {
  return new Refusal("notANewPlant", message);
}

/**
 * Returns the value of a JSON number if it is an int64, judged from its digits:
 * going through a double would round fractions to integers. The length of the
 * result is checked before any power of ten is computed.
 */
function parseInt64(source: string): bigint | undefined {
  if (SHORT_INTEGER.test(source)) return BigInt(source);
  const [mantissa = "", exponent = "0"] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = whole + fraction;

  // The significant digits are those between leading and trailing zeros.
  let from = 0;
  while (digits[from] === "0") from++;
  if (from === digits.length) return 0n;
  let to = digits.length;
  while (digits[to - 1] === "0") to--;

  // An exponent too long for an exact double exceeds the length of any body,
  // so rounding it, even to infinity, does not change the result.
  const zeros = Number(exponent) - fraction.length + (digits.length - to);
  if (zeros < 0 || to - from + zeros > ID_DIGITS_MAX) return undefined;
  const magnitude = BigInt(digits.slice(from, to) + "0".repeat(zeros));
  const id = source.startsWith("-") ? -magnitude : magnitude;
  return id >= ID_MIN && id <= ID_MAX ? id : undefined;
}

/** Returns the member if it occurs once and is of the expected kind. */
function requireMember(
  name: string,
  member: Member | undefined,
  kind: JsonKind,
  expected: string,
): Member | Refusal {
  if (member === undefined) {
    return refuse(`${name}: expected ${expected}, got nothing`);
  }
  if (member.isDuplicate) return refuse(`${name}: duplicate member`);
  if (member.kind === kind) return member;
  return refuse(
    `${name}: expected ${expected}, got ${KIND_NAMES[member.kind]}`,
  );
}

function readId(idMember: Member | undefined): bigint | Refusal {
  const member = requireMember("id", idMember, "number", AN_ID);
  if (member instanceof Refusal) return member;
  return parseInt64(member.text) ?? refuse(
    `id: expected ${AN_ID}, got ${truncate(member.text, QUOTE_CHARS_MAX)}`,
  );
}

function readString(
  name: string,
  stringMember: Member | undefined,
): string | Refusal {
  const member = requireMember(name, stringMember, "string", "a string");
  if (member instanceof Refusal) return member;
  // An escape can spell an unpaired surrogate, which UTF-8 cannot encode.
  if (member.text.isWellFormed()) return member.text;
  return refuse(`${name}: expected Unicode text, got an unpaired surrogate`);
}

/** Returns the NewPlant of a text in the spelling of {@link FAST_PATH}. */
function readFastPath(text: string): NewPlant | undefined {
  const [, id, name, tag] = FAST_PATH.exec(text) ?? [];
  if (id === undefined || name === undefined) return undefined;
  const plant = tag === undefined ? { name } : { name, tag };
  return { id: BigInt(id), plant };
}

/**
 * Parses a NewPlant from a JSON text: the body of a request or a line of an
 * import. It drops members that the API description does not name.
 *
 * @returns the NewPlant, or the refusal `notJson` or `notANewPlant`
 */
export function parseNewPlant(text: string): NewPlant | Refusal {
  const fast = readFastPath(text);
  if (fast !== undefined) return fast;
  const read = readMembers(text, ["id", "name", "tag"]);
  if (typeof read === "string") return new Refusal("notJson", read);
  if (read.kind !== "object") {
    return refuse(
      `expected an object with id and name, got ${KIND_NAMES[read.kind]}`,
    );
  }
  const [idMember, nameMember, tagMember] = read.members;
  const id = readId(idMember);
  if (id instanceof Refusal) return id;
  const name = readString("name", nameMember);
  if (name instanceof Refusal) return name;
  if (tagMember === undefined) return { id, plant: { name } };
  const tag = readString("tag", tagMember);
  if (tag instanceof Refusal) return tag;
  return { id, plant: { name, tag } };
}
