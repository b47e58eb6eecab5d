/** Texts that the readers of JSON and of plants accept or refuse. */
import assert from "node:assert/strict";
import { NotJson, readMembers } from "../../src/plant/json.ts";
import {
  InvalidText,
  type NewPlant,
  parseNewPlant,
} from "../../src/plant/plant.ts";
import { truncate } from "../../src/text.ts";
import { toBytes } from "./wire.ts";

/** Returns what `readMembers()` reads in a text, which must be JSON. */
export function acceptJson(text: string) {
  const read = readMembers(text);
  if (read instanceof NotJson) {
    assert.fail(`refused: ${read.message}: ${truncate(text, 200)}`);
  }
  return read;
}

/**
 * Returns where a text is not JSON, as `LINE:COLUMN`, and the message of
 * `readMembers()`.
 */
export function refuseJson(text: string): string {
  const read = readMembers(text);
  assert.ok(read instanceof NotJson, `accepted: ${truncate(text, 200)}`);
  const { position, message } = read;
  return `${position.line}:${position.column}: ${message}`;
}

/** Whether `JSON.parse` accepts a text. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The expected id, as messages describe it. */
export const AN_ID =
  "an integer from -9223372036854775808 to 9223372036854775807";

/** Parses a text, which must be a NewPlant. */
export function acceptNewPlant(text: string): NewPlant {
  const newPlant = parseNewPlant(toBytes(text));
  if (newPlant instanceof InvalidText) {
    assert.fail(`refused: ${newPlant.message}: ${truncate(text, 200)}`);
  }
  return newPlant;
}

/** Returns the message for a text that must be JSON, but not a NewPlant. */
export function refuseNewPlant(text: string): string {
  const refusal = parseNewPlant(toBytes(text));
  const accepted = `accepted: ${truncate(text, 200)}`;
  assert.ok(refusal instanceof InvalidText, accepted);
  assert.equal(refusal.kind, "not a NewPlant", refusal.message);
  return refusal.message;
}
