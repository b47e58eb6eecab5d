import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";

/** The characters of a bearer token (RFC 6750, section 2.1), without `=`. */
const TOKEN_CHARACTERS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

const TOKENS = ["first", "second/+~", "third=="];

/** Returns the name of the refusal of a header, or `accepted`. */
function refusal(tokens: AcceptedTokens, header: string | null) {
  return tokens.authorize(header)?.name ?? "accepted";
}

Deno.test("authorize() accepts the characters that RFC 6750 allows, and no others", () => {
  for (let code = 0; code < 256; code++) {
    const token = String.fromCharCode(code);
    const isAllowed = TOKEN_CHARACTERS.includes(token);
    const found = refusal(new AcceptedTokens([token]), `Bearer ${token}`);
    assert.equal(found, isAllowed ? "accepted" : "noToken", `code ${code}`);
  }
});

Deno.test("authorize() accepts each of its tokens, after any spelling of the scheme, every time", () => {
  const tokens = new AcceptedTokens([...TOKENS, "x".repeat(9_999)]);
  for (
    const header of [
      "Bearer first",
      "bearer first",
      "BEARER second/+~",
      "bEaReR third==",
      "Bearer     first",
      `Bearer ${"x".repeat(9_999)}`,
    ]
  ) {
    for (let i = 0; i < 3; i++) {
      assert.equal(refusal(tokens, header), "accepted", header);
    }
  }
});

/** Asserts a refusal before and after a header that is accepted. */
function assertRefused(
  header: string | null,
  name: string,
  message: string,
): void {
  const tokens = new AcceptedTokens(TOKENS);
  for (let i = 0; i < 2; i++) {
    assert.equal(refusal(tokens, header), name, `${header}`);
    assert.equal(tokens.authorize(header)?.message, message, `${header}`);
    assert.equal(refusal(tokens, "Bearer first"), "accepted");
  }
}

Deno.test("authorize() finds no token in a header that is not one bearer token, and does not quote the header", () => {
  for (
    const [found, ...headers] of [
      ["nothing", null, ""],
      [
        "something else",
        "Basic first",
        "basic <first>",
        'Digest username="first"',
        "XBearer first",
        "first first",
        "Bearerfirst first",
        "Bearer",
        "Bearer ",
        "bearer  ",
        " Bearer first",
        "first",
        "Bearerfirst",
        "Bearer\tfirst",
        'Bearer "first"',
        "Bearer fïrst",
        "Bearer first\n",
        "Bearer first\nBearer second",
        "Bearer first, Bearer first",
        "Bearer first,second",
        "bearer a_-.~+/= b",
        "Bearer first second",
        "Bearer =first",
        "Bearer =",
        "Bearer  =",
        "Bearer ,",
        "Bearer token=first",
      ],
    ] as const
  ) {
    const message = `expected Authorization: Bearer <token>, got ${found}`;
    for (const header of headers) assertRefused(header, "noToken", message);
  }
});

Deno.test("authorize() does not accept another token", () => {
  for (
    const token of [
      "firs",
      "firsT",
      "Eirst",
      "first=",
      "xfirst",
      "tsrif",
      "third=",
      "firstsecond",
    ]
  ) {
    const message = "Authorization: this token is not accepted";
    assertRefused(`Bearer ${token}`, "tokenNotAccepted", message);
  }
});

Deno.test("AcceptedTokens counts the accepted requests of each token by the start of its SHA-256, until it is revoked", () => {
  const tokens = new AcceptedTokens(["old", "kept"]);
  for (const token of ["kept", "old", "kept", "none"]) {
    tokens.authorize(`Bearer ${token}`);
  }
  // printf old | sha256sum
  assert.deepEqual([...tokens.requests], [["cba06b57", 1], ["79f076ab", 2]]);
  tokens.replace(["new", "kept"]);
  tokens.authorize("Bearer old");
  tokens.authorize("Bearer kept");
  assert.deepEqual([...tokens.requests], [["11507a0e", 0], ["79f076ab", 3]]);
});

Deno.test("replace() revokes every token that is not among the new ones", () => {
  const tokens = new AcceptedTokens(["old", "kept"]);
  assert.equal(refusal(tokens, "Bearer old"), "accepted");
  tokens.replace(["new", "kept"]);
  assert.equal(refusal(tokens, "Bearer old"), "tokenNotAccepted");
  for (const token of ["kept", "new"]) {
    assert.equal(refusal(tokens, `Bearer ${token}`), "accepted");
  }
});
