import assert from "node:assert/strict";
import { BODY_BYTES_MAX } from "../../src/limits.ts";
import { truncate } from "../../src/messages.ts";
import { InvalidText } from "../../src/plant/invalid_text.ts";
import { type NewPlant, parseNewPlant } from "../../src/plant/plant.ts";
import { STRING_MEMBERS } from "./plants.ts";
import type { Random } from "./random.ts";

/** The expected id, as messages describe it. */
export const AN_ID =
  "an integer from -9223372036854775808 to 9223372036854775807";

/** Parses a text, which must be a NewPlant. */
export function acceptNewPlant(text: string): NewPlant {
  const newPlant = parseNewPlant(text);
  if (newPlant instanceof InvalidText) {
    assert.fail(`refused: ${newPlant.message}: ${truncate(text, 200)}`);
  }
  return newPlant;
}

/** Returns the message for a text that must be JSON, but not a NewPlant. */
export function refuseNewPlant(text: string): string {
  const refusal = parseNewPlant(text);
  const accepted = `accepted: ${truncate(text, 200)}`;
  assert.ok(refusal instanceof InvalidText, accepted);
  assert.equal(refusal.kind, "not a NewPlant", refusal.message);
  return refusal.message;
}

/** Returns two spellings of a NewPlant with an id. */
export function withId(id: string): string[] {
  return [`{"id":${id},"name":"a"}`, `{"name":"a","id": ${id} }`];
}

/** Every id whose text is 15 digits longer in an export than in a body. */
export const SHORT_IDS: readonly string[] = Array.from(
  { length: 18 },
  (_, i) => `${i < 9 ? i + 1 : 8 - i}e18`,
);

/** Letters as a body may spell them: raw with 1 to 4 bytes, or escaped. */
const LETTERS: readonly string[] = [
  ...["x", "/", "\x7f", "é", "ÿ", "Ā", "\u2028", "竹", "\uffff", "\u{10ffff}"],
  ...["\\u0000", "\\u001F", "\\b", "\\n", '\\"', "\\\\", "\\/", "\\u00e9"],
  ...["\\u0100", "\\ud83c\\udf31"],
];

/** Returns a body of BODY_BYTES_MAX, almost all of it one string. */
export function drawLargestBody(random: Random, id: string): string {
  const longMember = random.pick(STRING_MEMBERS);
  const strings = STRING_MEMBERS.filter((name) =>
    name === "name" || name === longMember || random.chance(0.3)
  );
  const members = [["id", id], ...strings.map((name) => [name, '""'])];
  members.sort(() => random.pick([-1, 1]));
  const empty = `{${members.map(([name, text]) => `"${name}":${text}`)}}`;
  const start = random.chance(0.5) ? random.pick(LETTERS) : "";
  const repeated = Array.from(
    { length: random.pick([1, 1, 5]) },
    () => random.pick(LETTERS),
  ).join("");
  const room = BODY_BYTES_MAX - byteLength(empty + start);
  const count = Math.floor(room / byteLength(repeated));
  const rest = "x".repeat(room - count * byteLength(repeated));
  const text = `"${start}${repeated.repeat(count)}${rest}"`;
  return empty.replace(`"${longMember}":""`, () => `"${longMember}":${text}`);
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
