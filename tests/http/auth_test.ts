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

Deno.test("check() finds no token in a header that is not one bearer token, and says what it has instead without quoting it", () => {
  for (
    const [found, ...headers] of [
      ["nothing", null, ""],
      ['no token after "Bearer"', "Bearer", "Bearer ", "bearer  "],
      [
        '"Bearer" and something else: write one token, without quotes or brackets',
        ...['Bearer "first"', "bearer <first>", "Bearer  first'"],
        ...["Bearer fïrst", "Bearer first\n", "Bearer first\nBearer second"],
        ...["Bearer first, Bearer first", "Bearer first,second"],
        ...["bearer a_-.~+/= b", "Bearer first second", "Bearer =first"],
        ...["Bearer =", "Bearer  =", "Bearer ,", "Bearer token=first"],
      ],
      ['the scheme "Basic"', "Basic first", "basic <first>", "BASIC a, b"],
      ['the scheme "Digest"', 'Digest username="first"', "digest first"],
      ['the scheme "Token"', "Token first", "token first"],
      [
        "a value without a scheme",
        ...["first", "Bearerfirst", "XBearer", "Bearer\tfirst", "Basic:first"],
      ],
      [
        "something else",
        ...["XBearer first", "XBasic first", "ApiKey first", " Bearer first"],
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
      ...["firs", "firsT", "Eirst", "first=", "xfirst", "tsrif", "third="],
      "firstsecond",
    ]
  ) {
    const message = "Authorization: this token is not accepted";
    assertRefused(`Bearer ${token}`, "tokenNotAccepted", message);
  }
});

/** Returns how many characters a check of a token compares. */
function charactersCompared(tokens: AcceptedTokens, token: string): number {
  const { charCodeAt } = String.prototype;
  let characters = 0;
  String.prototype.charCodeAt = function (index) {
    characters++;
    return charCodeAt.call(this, index);
  };
  try {
    tokens.check(`Bearer ${token}`);
  } finally {
    String.prototype.charCodeAt = charCodeAt;
  }
  return characters;
}

Deno.test("check() compares every character of every token of the same length, whichever are equal", () => {
  const tokens = new AcceptedTokens(["first", "third", "longer"]);
  for (const token of ["first", "third", "firsT", "Third", "0000t"]) {
    // Two tokens, and both sides of the comparison.
    const expected = 2 * 2 * token.length;
    assert.equal(charactersCompared(tokens, token), expected, token);
  }
});

Deno.test("AcceptedTokens.requests counts the accepted requests of each token, by the start of its SHA-256", () => {
  const tokens = new AcceptedTokens(["first", "second", "first"]);
  assert.equal(tokens.count, 2);
  const headers = ["first", "first", "second", "third", "first,", ""];
  for (const token of headers) tokens.check(`Bearer ${token}`);
  assert.deepEqual(
    [...tokens.requests],
    [["a7937b64", 2], ["16367aac", 1]],
  );
});

Deno.test("AcceptedTokens.requests counts tokens together whose SHA-256 starts alike", () => {
  const alike = ["token33697", "token45436"];
  const tokens = new AcceptedTokens(alike);
  for (const token of alike) tokens.check(`Bearer ${token}`);
  assert.deepEqual([...tokens.requests], [["ed183822", 2]]);
});

Deno.test("replace() revokes every token that is not among the new ones, and keeps the counters of the others", () => {
  const tokens = new AcceptedTokens(["old", "kept"]);
  const counters = () => [...tokens.requests.values()];
  for (const token of ["old", "kept", "kept"]) {
    assert.equal(refusal(tokens, `Bearer ${token}`), "accepted");
  }
  tokens.replace(["new", "kept"]);
  assert.deepEqual(counters(), [0, 2]);
  assert.equal(refusal(tokens, "Bearer old"), "tokenNotAccepted");
  for (const token of ["kept", "new"]) {
    assert.equal(refusal(tokens, `Bearer ${token}`), "accepted");
  }
  assert.deepEqual(counters(), [1, 3]);
  // A token that returns is a new one.
  tokens.replace(["old"]);
  assert.deepEqual(counters(), [0]);
});
