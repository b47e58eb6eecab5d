import { ERROR, Refusal } from "./errors.ts";
import { type JsonKind, type Member, readMembers } from "./json.ts";
import { ID_MAX, ID_MIN } from "./limits.ts";

/** A plant as it is stored and answered: the `Plant` of the API description. */
export interface Plant {
  readonly name: string;
  readonly tag?: string;
}

/** A plant and the id it is created under: `NewPlant`. */
export interface NewPlant {
  /** An int64, exact. */
  readonly id: bigint;
  readonly plant: Plant;
}

const MEMBERS = ["id", "name", "tag"];

/**
 * A NewPlant as most clients spell it: its members in this order and no other,
 * an id of at most 18 digits, strings without escapes and without surrogates.
 * One expression reads it in less than half the time. It refuses nothing: what
 * it does not match is read step by step. No two neighbouring parts of it can
 * match the same character, so its time is linear.
 */
const USUAL =
  /^\{"id": ?(-?(?:0|[1-9]\d{0,17})), ?"name": ?"([ !#-[\]-\ud7ff\ue000-\uffff]*)"(?:, ?"tag": ?"([ !#-[\]-\ud7ff\ue000-\uffff]*)")?\}$/;

/** A JSON number that is an int64 at first sight. */
const PLAIN_ID = /^-?\d{1,18}$/;

const AN_ID = `an integer from ${ID_MIN} to ${ID_MAX}`;
/** The digits of the longest id. */
const ID_DIGITS_MAX = String(ID_MAX).length;
/** A number in a message is cut here; a body may be one long number. */
const SHOWN_CHARACTERS_MAX = 40;

const IN_WORDS: Readonly<Record<JsonKind, string>> = {
  string: "a string",
  number: "a number",
  object: "an object",
  array: "an array",
  boolean: "a boolean",
  null: "null",
};

function refuse(message: string): Refusal {
  return new Refusal(ERROR.NOT_A_NEW_PLANT, message);
}

function cut(source: string): string {
  return source.length <= SHOWN_CHARACTERS_MAX
    ? source
    : `${source.slice(0, SHOWN_CHARACTERS_MAX)}…`;
}

/**
 * The value of a JSON number if that is an int64, judged from its digits: the
 * way over a double would make integers of numbers that are none. No power of
 * ten is built before its length is known to fit.
 */
function readInt64(source: string): bigint | undefined {
  if (PLAIN_ID.test(source)) return BigInt(source);
  const [mantissa = "", exponent = "0"] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = whole + fraction;

  // The significant digits stand between the zeros at both ends.
  let from = 0;
  while (digits[from] === "0") from++;
  if (from === digits.length) return 0n;
  let to = digits.length;
  while (digits[to - 1] === "0") to--;

  // An exponent too long for an exact double is beyond the length of any
  // text, so rounding it, even to an infinity, does not change the outcome.
  const zeros = Number(exponent) - fraction.length + (digits.length - to);
  if (zeros < 0 || to - from + zeros > ID_DIGITS_MAX) return undefined;
  const size = BigInt(digits.slice(from, to) + "0".repeat(zeros));
  const id = source.startsWith("-") ? -size : size;
  return id >= ID_MIN && id <= ID_MAX ? id : undefined;
}

function readId(member: Member | undefined): bigint | Refusal {
  if (member === undefined) return refuse(`id: expected ${AN_ID}, got nothing`);
  if (member.twice) return refuse("id: given twice");
  if (member.kind !== "number") {
    return refuse(`id: expected ${AN_ID}, got ${IN_WORDS[member.kind]}`);
  }
  return readInt64(member.text) ??
    refuse(`id: expected ${AN_ID}, got ${cut(member.text)}`);
}

function readString(
  name: string,
  member: Member | undefined,
): string | Refusal {
  if (member === undefined) {
    return refuse(`${name}: expected a string, got nothing`);
  }
  if (member.twice) return refuse(`${name}: given twice`);
  if (member.kind !== "string") {
    return refuse(`${name}: expected a string, got ${IN_WORDS[member.kind]}`);
  }
  // Escapes can spell half a character, which has no form in UTF-8.
  if (!member.text.isWellFormed()) {
    return refuse(
      `${name}: expected whole characters, got an unpaired surrogate`,
    );
  }
  return member.text;
}

/** The NewPlant that a text is in its {@link USUAL} spelling. */
function readUsual(text: string): NewPlant | undefined {
  const match = USUAL.exec(text);
  if (match === null) return undefined;
  const [, id, name, tag] = match;
  if (id === undefined || name === undefined) return undefined;
  return {
    id: BigInt(id),
    plant: tag === undefined ? { name } : { name, tag },
  };
}

/**
 * Makes a NewPlant of a JSON text: of the body of a request and of a line of
 * an import alike. Members that the API description does not name are dropped.
 */
export function readNewPlant(text: string): NewPlant | Refusal {
  const usual = readUsual(text);
  if (usual !== undefined) return usual;
  const read = readMembers(text, MEMBERS);
  if (read instanceof Refusal) return read;
  if (read.kind !== "object") {
    return refuse(
      `expected an object with id and name, got ${IN_WORDS[read.kind]}`,
    );
  }
  const id = readId(read.members[0]);
  if (id instanceof Refusal) return id;
  const name = readString("name", read.members[1]);
  if (name instanceof Refusal) return name;
  if (read.members[2] === undefined) return { id, plant: { name } };
  const tag = readString("tag", read.members[2]);
  if (tag instanceof Refusal) return tag;
  return { id, plant: { name, tag } };
}
