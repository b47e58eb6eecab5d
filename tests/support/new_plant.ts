import assert from "node:assert/strict";
import { truncate } from "../../src/text.ts";
import { InvalidText } from "../../src/plant/json.ts";
import { type NewPlant, parseNewPlant } from "../../src/plant/plant.ts";

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
