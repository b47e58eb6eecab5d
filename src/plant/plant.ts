/**
 * Plants: what their members are, how they are parsed, compared and formatted.
 * `reference/openapi.ts` describes them for clients.
 */
import { ID_MAX, ID_MIN, ID_RANGE, QUOTE_CHARS_MAX } from "../limits.ts";
import { truncate } from "../text.ts";
import {
  type JsonKind,
  type Member,
  NotJson,
  type Position,
  readMembers,
} from "./json.ts";

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

/** Why bytes are not a NewPlant. The parsers return it. */
export class InvalidText {
  /**
   * @param message what was expected, and what was found
   * @param position where the text is not JSON
   */
  constructor(
    readonly kind: "not UTF-8" | "not JSON" | "not a NewPlant",
    readonly message: string,
    readonly position?: Position,
  ) {}
}

const AN_ID = `an integer ${ID_RANGE}`;

/** Number of digits of the longest id. */
const ID_DIGITS_MAX = String(ID_MAX).length;

function notANewPlant(message: string): InvalidText {
  return new InvalidText("not a NewPlant", message);
}

/** An integer as most clients write it. */
const PLAIN_INTEGER = new RegExp(`^-?\\d{1,${ID_DIGITS_MAX}}$`);

/** Returns the value of a JSON number if it is an int64. */
function parseInt64(source: string): bigint | undefined {
  const integer = PLAIN_INTEGER.test(source) ? source : toInteger(source);
  if (integer === undefined) return undefined;
  const id = BigInt(integer);
  return id >= ID_MIN && id <= ID_MAX ? id : undefined;
}

/**
 * Returns a JSON number without fraction and exponent, or `undefined` if it is no
 * integer or has more digits than an id. It works on the digits: going through a
 * double would round fractions to integers.
 */
function toInteger(source: string): string | undefined {
  const [mantissa = "", exponent = "0"] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = whole + fraction;

  // The significant digits are those between leading and trailing zeros.
  let from = 0;
  while (digits[from] === "0") from++;
  if (from === digits.length) return "0";
  let to = digits.length;
  while (digits[to - 1] === "0") to--;

  const significant = digits.slice(from, to);

  // The zeros after the significant digits: `1.50e3` has the digits 15 and 2 zeros.
  // Fewer than 0 zeros mean a fraction: `1.5` has -1. Number() rounds a large exponent,
  // even to infinity. Such an exponent exceeds the length of any text by far, so the
  // result is the same.
  const trailingZeros = digits.length - to;
  const zeros = trailingZeros - fraction.length + Number(exponent);
  const isFraction = zeros < 0;
  // Checked before the zeros are appended: there may be any number of them.
  const isTooLong = significant.length + zeros > ID_DIGITS_MAX;
  if (isFraction || isTooLong) return undefined;
  const sign = source.startsWith("-") ? "-" : "";
  return sign + significant + "0".repeat(zeros);
}

/** Returns the text of a member if it occurs once and is of the right kind. */
function requireMember(
  name: string,
  member: Member | undefined,
  kind: JsonKind,
  expected: string = kind,
): string | InvalidText {
  if (member === undefined) {
    return notANewPlant(`${name}: expected ${expected}, got nothing`);
  }
  if (member.isDuplicate) return notANewPlant(`${name}: duplicate member`);
  if (member.kind === kind) return member.text;
  return notANewPlant(
    `${name}: expected ${expected}, got ${member.kind}`,
  );
}

function readId(member: Member | undefined): bigint | InvalidText {
  const text = requireMember("id", member, "a number", AN_ID);
  if (text instanceof InvalidText) return text;
  return parseInt64(text) ?? notANewPlant(
    `id: expected ${AN_ID}, got ${truncate(text, QUOTE_CHARS_MAX)}`,
  );
}

function readString(
  name: string,
  member: Member | undefined,
): string | InvalidText {
  const text = requireMember(name, member, "a string");
  if (text instanceof InvalidText) return text;
  // An escape can spell an unpaired surrogate, which UTF-8 cannot encode.
  if (text.isWellFormed()) return text;
  return notANewPlant(
    `${name}: expected Unicode text, got an unpaired surrogate`,
  );
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8 without repair; a byte order mark is kept. */
function decodeUtf8(bytes: Uint8Array): string | InvalidText {
  try {
    return decoder.decode(bytes);
  } catch {
    return new InvalidText("not UTF-8", "expected well-formed UTF-8");
  }
}

/**
 * Parses a NewPlant from a JSON text in UTF-8: the body of a request or a line of
 * an import. It drops members that the API description does not name.
 *
 * @returns the NewPlant, or why the bytes are not one
 */
export function parseNewPlant(bytes: Uint8Array): NewPlant | InvalidText {
  const text = decodeUtf8(bytes);
  if (text instanceof InvalidText) return text;
  const read = readMembers(text);
  if (read instanceof NotJson) {
    return new InvalidText("not JSON", read.message, read.position);
  }
  if (read.kind !== "an object") {
    return notANewPlant(
      `expected an object with id and name, got ${read.kind}`,
    );
  }
  const { members } = read;
  const id = readId(members.get("id"));
  if (id instanceof InvalidText) return id;
  const name = readString("name", members.get("name"));
  if (name instanceof InvalidText) return name;
  const tagMember = members.get("tag");
  if (tagMember === undefined) return { id, plant: { name } };
  if (tagMember.kind === "null") {
    return notANewPlant(
      "tag: expected a string or nothing, got null: leave it out",
    );
  }
  const tag = readString("tag", tagMember);
  if (tag instanceof InvalidText) return tag;
  return { id, plant: { name, tag } };
}

/** Returns whether two plants are equal in every member. */
export function isSamePlant(one: Plant, other: Plant): boolean {
  return one.name === other.name && one.tag === other.tag;
}

/** Returns the UTF-16 code units of all members of a plant. */
export function countChars({ name, tag = "" }: Plant): number {
  return name.length + tag.length;
}

/**
 * Returns a stored value as a plant, or `null` if it is not one: another program may
 * have stored it.
 */
export function toPlant(value: unknown): Plant | null {
  if (typeof value !== "object" || value === null) return null;
  if (!("name" in value) || !isText(value.name)) return null;
  const { name } = value;
  if (!("tag" in value)) return { name };
  return isText(value.tag) ? { name, tag: value.tag } : null;
}

/** Returns whether a value is a string that UTF-8 can represent. */
function isText(value: unknown): value is string {
  return typeof value === "string" && value.isWellFormed();
}

/**
 * Formats a plant as a line that {@link parseNewPlant} accepts, without a line
 * break.
 */
export function formatNewPlant({ id, plant }: NewPlant): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`;
}
