import assert from "node:assert/strict";
import { ApiError, type ErrorName } from "../../src/errors.ts";
import { type NewPlant, parseNewPlant } from "../../src/plant/plant.ts";

/** The expected id, as messages describe it. */
export const AN_ID =
  "an integer from -9223372036854775808 to 9223372036854775807";

/** Parses a text, which must be a NewPlant. */
export function acceptNewPlant(text: string): NewPlant {
  const newPlant = parseNewPlant(text);
  if (newPlant instanceof ApiError) {
    assert.fail(`${text} is refused: ${newPlant.message}`);
  }
  return newPlant;
}

/** Returns the message for a text that must be refused. */
export function refuseNewPlant(
  text: string,
  name: ErrorName = "notANewPlant",
): string {
  const refusal = parseNewPlant(text);
  assert.ok(refusal instanceof ApiError, `${text} is accepted`);
  assert.equal(refusal.name, name, refusal.message);
  return refusal.message;
}

/** Returns two spellings of a NewPlant with an id. */
export function withId(id: string): string[] {
  return [`{"id":${id},"name":"a"}`, `{"name":"a","id": ${id} }`];
}
