import assert from "node:assert/strict";
import { truncate } from "../../src/text.ts";
import { InvalidText, readMembers } from "../../src/plant/json.ts";

/** Returns what `readMembers()` reads in a text, which must be JSON. */
export function acceptJson(text: string) {
  const read = readMembers(text);
  if (read instanceof InvalidText) {
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
  assert.ok(read instanceof InvalidText, `accepted: ${truncate(text, 200)}`);
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
