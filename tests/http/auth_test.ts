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
        '"Bearer" with a character that no token has: write it without quotes or brackets',
        ...['Bearer "first"', "bearer <first>", "Bearer  first'"],
        ...["Bearer fïrst", "Bearer first\n", "Bearer first\nBearer second"],
      ],
      [
        "something else",
        ...["first", "Bearerfirst", "Basic first", "XBearer", "XBearer first"],
        ...["Bearer\tfirst", " Bearer first", "Bearer first "],
        ...["Bearer first, Bearer first", "Bearer first,second", "Bearer ="],
        ...["Bearer a_-.~+/= b", "Bearer token=first", "Bearer =first"],
        "Basic <first>",
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

Deno.test("check() refuses every token that differs in one bit", () => {
  const token = "first";
  const tokens = new AcceptedTokens([token, "fifth"]);
  for (let i = 0; i < token.length; i++) {
    for (let bit = 1; bit < 128; bit *= 2) {
      const letter = String.fromCharCode(token.charCodeAt(i) ^ bit);
      const other = token.slice(0, i) + letter + token.slice(i + 1);
      assert.notEqual(refusal(tokens, `Bearer ${other}`), "accepted", other);
    }
  }
});

Deno.test("check() compares with every token, also after one that is equal", () => {
  let comparisons = 0;
  const tokens = Object.defineProperty(["first", "second"], 1, {
    get() {
      comparisons++;
      return "second";
    },
  });
  const accepted = new AcceptedTokens(tokens);
  for (const [token, expected] of [["first", 1], ["second", 2], ["x", 3]]) {
    accepted.check(`Bearer ${token}`);
    assert.equal(comparisons, expected);
  }
});

Deno.test("replace() revokes every token that is not among the new ones", () => {
  const tokens = new AcceptedTokens(["old", "kept"]);
  assert.equal(refusal(tokens, "Bearer old"), "accepted");
  tokens.replace(["kept", "new"]);
  assert.equal(refusal(tokens, "Bearer old"), "tokenNotAccepted");
  assert.equal(refusal(tokens, "Bearer kept"), "accepted");
  assert.equal(refusal(tokens, "Bearer new"), "accepted");
});
