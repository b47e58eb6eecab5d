import assert from "node:assert/strict";
import { InvalidText } from "../../src/plant/invalid_text.ts";
import { type Members, readMembers } from "../../src/plant/json.ts";

/** The names that the tests of `readMembers()` request. */
export const REQUESTED = ["id", "name", "tag"];

/** Returns what `readMembers()` reads in a text, which must be JSON. */
export function acceptJson(text: string): Members {
  const read = readMembers(text, REQUESTED);
  if (read instanceof InvalidText) {
    assert.fail(`${JSON.stringify(text)} is refused: ${read.message}`);
  }
  return read;
}

/**
 * Returns where a text is not JSON, as `LINE:COLUMN`, and the message of
 * `readMembers()`.
 */
export function refuseJson(text: string): string {
  const read = readMembers(text, REQUESTED);
  assert.ok(read instanceof InvalidText, `${JSON.stringify(text)} is accepted`);
  assert.equal(read.kind, "not JSON");
  const { position, message } = read;
  return position === undefined
    ? message
    : `${position.line}:${position.column}: ${message}`;
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

/** Returns texts with the same value at each place of the grammar. */
export function everywhere(value: string): string[] {
  return [
    value,
    `[${value}]`,
    `[0,${value},0]`,
    `{"id":${value}}`,
    `{"other":${value}}`,
    `{"other":[{"id":${value},"a":0}],"b":0}`,
  ];
}
