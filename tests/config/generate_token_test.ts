import assert from "node:assert/strict";
import { generateToken } from "../../src/config/tokens.ts";

Deno.test("generateToken() returns 128 random bits as hexadecimal digits", () => {
  const tokens = Array.from({ length: 10 }, generateToken);
  for (const token of tokens) assert.match(token, /^[\da-f]{32}$/);
  assert.equal(new Set(tokens).size, tokens.length);
});
