import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";

/** The characters of a bearer token (RFC 6750, section 2.1), without `=`. */
const TOKEN_CHARACTERS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

/** Returns the name of the refusal of a header, if it is refused. */
function refusal(tokens: AcceptedTokens, header: string | null) {
  return tokens.check(header)?.name ?? "accepted";
}

/** Checks a header that presents an accepted token. */
function checkAccepted(token: string): string {
  return refusal(new AcceptedTokens([token]), `Bearer ${token}`);
}

Deno.test("check() accepts a token of any length, with = at its end", () => {
  for (const token of ["a=", "a====", "+=", "x".repeat(9_999)]) {
    assert.equal(checkAccepted(token), "accepted", token);
  }
});

Deno.test("check() accepts the characters that RFC 6750 allows, and no others", () => {
  for (let code = 0; code < 256; code++) {
    const token = String.fromCharCode(code);
    const isAllowed = TOKEN_CHARACTERS.includes(token);
    assert.equal(
      checkAccepted(token),
      isAllowed ? "accepted" : "noToken",
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
  ) assert.equal(checkAccepted(token), "noToken", JSON.stringify(token));
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
    for (let i = 0; i < 3; i++) {
      assert.equal(refusal(tokens, header), "accepted");
    }
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
    assert.equal(refusal(tokens, header), "noToken");
    assert.equal(refusal(tokens, "Bearer first"), "accepted");
    assert.equal(refusal(tokens, header), "noToken");
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
    assert.equal(refusal(tokens, `Bearer ${token}`), "tokenNotAccepted");
    assert.equal(refusal(tokens, "Bearer first"), "accepted");
    assert.equal(refusal(tokens, `Bearer ${token}`), "tokenNotAccepted");
  });
}

Deno.test("check() does not accept the hash of an accepted token", async () => {
  const digest = await crypto.subtle.digest(
    "SHA-256",
    new TextEncoder().encode("first"),
  );
  const tokens = new AcceptedTokens(TOKENS);
  const hash = new Uint8Array(digest).toHex();
  assert.equal(refusal(tokens, `Bearer ${hash}`), "tokenNotAccepted");
});

Deno.test("replace() revokes every token that is not among the new ones", () => {
  for (const last of ["old", "kept"]) {
    const tokens = new AcceptedTokens(["old", "kept"]);
    assert.equal(refusal(tokens, "Bearer old"), "accepted");
    assert.equal(refusal(tokens, "Bearer kept"), "accepted");
    // The last accepted header is cached.
    assert.equal(refusal(tokens, `Bearer ${last}`), "accepted");
    tokens.replace(["kept", "new"]);
    assert.equal(refusal(tokens, "Bearer old"), "tokenNotAccepted");
    assert.equal(refusal(tokens, "Bearer kept"), "accepted");
    assert.equal(refusal(tokens, "Bearer new"), "accepted");
  }
});

Deno.test("check() refuses every variation of the last accepted header in one character", () => {
  const header = "Bearer first";
  const tokens = new AcceptedTokens(["first"]);
  for (let i = 0; i < header.length; i++) {
    // The scheme is case-insensitive, so another letter is used.
    const other = `${header.slice(0, i)}z${header.slice(i + 1)}`;
    assert.equal(refusal(tokens, header), "accepted");
    assert.notEqual(refusal(tokens, other), "accepted", other);
  }
  for (const other of [header.slice(1), header.slice(0, -1), `${header}t`]) {
    assert.notEqual(refusal(tokens, other), "accepted", other);
  }
});

Deno.test("check() accepts each of 15,000 tokens, and no other", () => {
  const tokens = Array.from({ length: 15_000 }, (_, i) => `token-${i}`);
  const accepted = new AcceptedTokens(tokens);
  for (const token of tokens) {
    assert.equal(refusal(accepted, `Bearer ${token}`), "accepted");
  }
  assert.equal(refusal(accepted, "Bearer token-15000"), "tokenNotAccepted");
});

Deno.test("check() accepts nothing without tokens", () => {
  const tokens = new AcceptedTokens([]);
  assert.equal(refusal(tokens, "Bearer first"), "tokenNotAccepted");
  assert.equal(refusal(tokens, "Bearer "), "noToken");
  assert.equal(refusal(tokens, ""), "noToken");
  assert.equal(refusal(tokens, null), "noToken");
});
