import assert from "node:assert/strict";
import { toServerError } from "../../src/store/open.ts";
import { isStoreError } from "../support/stores.ts";

const TOKEN = "a-token/for-tests";

/** Returns the message for an error of a KV Connect server. */
function serverMessage(text: string): string {
  return toServerError(new Error(text), TOKEN).message;
}

Deno.test("toServerError() masks the token in the message of a server, also where it is truncated", () => {
  const message = serverMessage(`${TOKEN} is not ${TOKEN}${TOKEN}`);
  assert.equal(message, "[token] is not [token][token]");
  for (let length = 150; length < 250; length++) {
    const message = serverMessage("x".repeat(length) + TOKEN);
    assert.doesNotMatch(message, /a-token|for-tests/);
  }
});

Deno.test("toServerError() puts the message of a server on one line of 200 UTF-16 code units, with escapes", () => {
  const message = serverMessage(" one\r\n\r\n  two\n\x1b[2J ");
  assert.equal(message, String.raw`one two \u{1b}[2J`);
  // It is truncated after the escapes.
  assert.equal(serverMessage("\x1b".repeat(10_000)).length, 201);
});

Deno.test("toServerError() recognizes of the errors of a server only that its plants are newer", () => {
  const malformed = new TypeError("database disk image is malformed");
  isStoreError("other", malformed.message)(toServerError(malformed, TOKEN));
  const newer = new RangeError("could not deserialize value");
  isStoreError("newer format", /^a newer Deno /)(toServerError(newer, TOKEN));
});
