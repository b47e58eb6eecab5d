import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";

/** The characters of a bearer token (RFC 6750, section 2.1), without `=`. */
const TOKEN_CHARACTERS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

/** Checks a header that presents an accepted token. */
function checkAccepted(token: string): string {
  return new AcceptedTokens([token]).check(`Bearer ${token}`);
}

Deno.test("check() accepts every token that RFC 6750 allows", () => {
  const tokens = ["a", TOKEN_CHARACTERS, "a=", "a====", "-", "/", "+=", "~"];
  for (const token of [...tokens, "x".repeat(9999)]) {
    assert.equal(checkAccepted(token), "accepted", token);
  }
});

Deno.test("check() accepts the characters that RFC 6750 allows, and no others", () => {
  for (let code = 0; code < 256; code++) {
    const token = String.fromCharCode(code);
    const isAllowed = TOKEN_CHARACTERS.includes(token);
    assert.equal(
      checkAccepted(token),
      isAllowed ? "accepted" : "no token",
      `code ${code}`,
    );
  }
});

Deno.test("check() finds no token in text that RFC 6750 does not allow", () => {
  for (
    const token of [
      ...["", "=", "==a", "a=b", "a b", "a ", "a\n", "\na", "a,b", "a;b"],
      ...["é", "a\0", "a\u00a0", "ａ", '"a"', "a:b", "a@b", "🌱"],
    ]
  ) assert.equal(checkAccepted(token), "no token", JSON.stringify(token));
});

const TOKENS = ["first", "second/+~", "third=="];

for (
  const header of [
    "Bearer first",
    "bearer first",
    "BEARER second/+~",
    "bEaReR third==",
    "Bearer     first",
  ]
) {
  Deno.test(`check() accepts ${JSON.stringify(header)} every time`, () => {
    const tokens = new AcceptedTokens(TOKENS);
    for (let i = 0; i < 3; i++) assert.equal(tokens.check(header), "accepted");
  });
}

for (
  const header of [
    ...[null, "", "Bearer", "Bearer ", "first", "Bearerfirst", "Basic first"],
    ...["Bearer\tfirst", " Bearer first", "Bearer first ", "Bearer first,"],
    ...["Bearer first, Bearer first", "Bearer first,second", "Bearer fir st"],
    ...['Bearer "first"', "Bearer token=first", "Bearer fïrst"],
    ...["Bearer =first", "Bearer first\n", "Bearer first\nBearer second"],
    ...["Token first", "XBearer first", "Bearer: first"],
  ]
) {
  Deno.test(`check() finds no token in ${JSON.stringify(header)}, before and after an accepted one`, () => {
    const tokens = new AcceptedTokens(TOKENS);
    assert.equal(tokens.check(header), "no token");
    assert.equal(tokens.check("Bearer first"), "accepted");
    assert.equal(tokens.check(header), "no token");
  });
}

for (
  const token of [
    ...["f", "firs", "firsT", "FIRST", "first1", "first=", "xfirst", "tsrif"],
    ...["third", "third=", "third===", "second", "firstsecond", "first.second"],
    ...["first".repeat(2000), "0".repeat(64)],
  ]
) {
  Deno.test(`check() does not accept ${token.slice(0, 20)}, before and after an accepted one`, () => {
    const tokens = new AcceptedTokens(TOKENS);
    assert.equal(tokens.check(`Bearer ${token}`), "not accepted");
    assert.equal(tokens.check("Bearer first"), "accepted");
    assert.equal(tokens.check(`Bearer ${token}`), "not accepted");
  });
}

Deno.test("check() does not accept the hash of an accepted token", async () => {
  const digest = await crypto.subtle.digest(
    "SHA-256",
    new TextEncoder().encode("first"),
  );
  const tokens = new AcceptedTokens(TOKENS);
  const hash = new Uint8Array(digest).toHex();
  assert.equal(tokens.check(`Bearer ${hash}`), "not accepted");
});

Deno.test("replace() revokes every token that is not among the new ones", () => {
  for (const last of ["old", "kept"]) {
    const tokens = new AcceptedTokens(["old", "kept"]);
    assert.equal(tokens.check("Bearer old"), "accepted");
    assert.equal(tokens.check("Bearer kept"), "accepted");
    // The last accepted header is cached.
    assert.equal(tokens.check(`Bearer ${last}`), "accepted");
    tokens.replace(["kept", "new"]);
    assert.equal(tokens.check("Bearer old"), "not accepted");
    assert.equal(tokens.check("Bearer kept"), "accepted");
    assert.equal(tokens.check("Bearer new"), "accepted");
  }
});

Deno.test("check() accepts nothing without tokens", () => {
  const tokens = new AcceptedTokens([]);
  assert.equal(tokens.check("Bearer first"), "not accepted");
  assert.equal(tokens.check("Bearer "), "no token");
  assert.equal(tokens.check(""), "no token");
  assert.equal(tokens.check(null), "no token");
});
