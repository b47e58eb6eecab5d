import assert from "node:assert/strict";
import { AcceptedTokens } from "../../src/http/auth.ts";

/** The characters of a bearer token (RFC 6750, section 2.1), without `=`. */
const TOKEN_CHARACTERS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

const TOKENS = ["first", "second/+~", "third=="];

/** Returns the name of the refusal of a header, or `accepted`. */
function refusal(tokens: AcceptedTokens, header: string | null) {
  return tokens.check(header)?.name ?? "accepted";
}

Deno.test("check() accepts the characters that RFC 6750 allows, and no others", () => {
  for (let code = 0; code < 256; code++) {
    const token = String.fromCharCode(code);
    const isAllowed = TOKEN_CHARACTERS.includes(token);
    assert.equal(
      refusal(new AcceptedTokens([token]), `Bearer ${token}`),
      isAllowed ? "accepted" : "noToken",
      `code ${code}`,
    );
  }
});

Deno.test("check() accepts each of its tokens, after any spelling of the scheme, every time", () => {
  const tokens = new AcceptedTokens([...TOKENS, "x".repeat(9_999)]);
  for (
    const header of [
      ...["Bearer first", "bearer first", "BEARER second/+~", "bEaReR third=="],
      ...["Bearer     first", `Bearer ${"x".repeat(9_999)}`],
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
    assert.equal(tokens.check(header)?.message, message, `${header}`);
    assert.equal(refusal(tokens, "Bearer first"), "accepted");
  }
}

Deno.test("check() finds no token in a header that is not one bearer token, and never quotes it", () => {
  for (
    const [found, ...headers] of [
      ["nothing", null, ""],
      ['no token after "Bearer"', "Bearer", "Bearer ", "bearer  "],
      [
        "something else",
        ...["first", "Bearerfirst", "Basic first", "XBearer", "XBearer first"],
        ...["Bearer\tfirst", " Bearer first", "Bearer first "],
        ...["Bearer first, Bearer first", "Bearer first,second", "Bearer a b"],
        ...['Bearer "first"', "Bearer token=first", "Bearer =first"],
        ...["Bearer =", "Bearer first\n", "Bearer first\nBearer second"],
        "Bearer fïrst",
      ],
    ] as const
  ) {
    const expected = `expected "Bearer" and one token, got ${found}`;
    for (const header of headers) {
      assertRefused(header, "noToken", `Authorization: ${expected}`);
    }
  }
});

Deno.test("check() does not accept another token", () => {
  for (
    const token of [
      ...["f", "firs", "firsT", "FIRST", "first1", "first=", "xfirst", "tsrif"],
      ...["third", "third=", "third===", "second", "firstsecond", "0"],
      ...["first".repeat(2000), "0".repeat(64)],
    ]
  ) {
    const message = "Authorization: this token is not accepted";
    assertRefused(`Bearer ${token}`, "tokenNotAccepted", message);
  }
});

Deno.test("check() refuses every variation of the last accepted header in one character, and in every bit", () => {
  const header = "Bearer first";
  const tokens = new AcceptedTokens(["first"]);
  for (let i = 0; i < header.length; i++) {
    // The scheme is case-insensitive, so another letter is used.
    const other = `${header.slice(0, i)}z${header.slice(i + 1)}`;
    assert.equal(refusal(tokens, header), "accepted");
    assert.notEqual(refusal(tokens, other), "accepted", other);
  }
  const inverted = header.replace(
    /./g,
    (it) => String.fromCharCode(~it.charCodeAt(0) & 0x7f),
  );
  const others = [header.slice(1), header.slice(0, -1), `${header}t`, inverted];
  for (const other of others) {
    assert.notEqual(refusal(tokens, other), "accepted", other);
  }
});

Deno.test("replace() revokes every token that is not among the new ones", () => {
  for (const last of ["old", "kept"]) {
    const tokens = new AcceptedTokens(["old", "kept"]);
    // The last accepted header is cached.
    assert.equal(refusal(tokens, `Bearer ${last}`), "accepted");
    tokens.replace(["kept", "new"]);
    assert.equal(refusal(tokens, "Bearer old"), "tokenNotAccepted");
    assert.equal(refusal(tokens, "Bearer kept"), "accepted");
    assert.equal(refusal(tokens, "Bearer new"), "accepted");
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
