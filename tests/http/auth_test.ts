import assert from "node:assert/strict";
import { AcceptedTokens, isBearerToken } from "../../src/http/auth.ts";

const CHARACTERS =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

Deno.test("isBearerToken() takes what RFC 6750 calls a b64token", () => {
  for (
    const text of ["a", CHARACTERS, "a=", "a====", "-", "/", "x".repeat(9999)]
  ) {
    assert.ok(isBearerToken(text), text);
  }
});

Deno.test("isBearerToken() takes each ASCII character that it may, alone", () => {
  for (let code = 0; code < 256; code++) {
    const text = String.fromCharCode(code);
    assert.equal(
      isBearerToken(text),
      CHARACTERS.includes(text),
      `code ${code}`,
    );
  }
});

Deno.test("isBearerToken() refuses what is no b64token", () => {
  for (
    const text of [
      ...["", "=", "==a", "a=b", "a b", " a", "a ", "a\n", "\na", "a,b", "a;b"],
      ...["é", "a\0", "a\u00a0", "ａ", '"a"', "a:b", "a@b", "🌱"],
    ]
  ) assert.ok(!isBearerToken(text), JSON.stringify(text));
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
  Deno.test(`check() accepts "${header}", also again`, () => {
    const tokens = new AcceptedTokens(TOKENS);
    for (let i = 0; i < 3; i++) assert.equal(tokens.check(header), "accepted");
  });
}

for (
  const header of [
    ...[null, "", "Bearer", "Bearer ", "first", "Bearerfirst", "Basic first"],
    ...["Bearer\tfirst", " Bearer first", "Bearer first ", "Bearer first,"],
    ...["Bearer first, Bearer first", "Bearer first,second", "Bearer fir st"],
    ...[
      'Bearer "first"',
      "Bearer token=first",
      "Bearer fïrst",
      "Bearer =first",
    ],
    ...["Bearer first\n", "Token first", "XBearer first", "Bearer: first"],
  ]
) {
  Deno.test(`check() finds no token in ${JSON.stringify(header)}`, () => {
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
  Deno.test(`check() does not accept ${token.slice(0, 20)}, before or after`, () => {
    const tokens = new AcceptedTokens(TOKENS);
    assert.equal(tokens.check(`Bearer ${token}`), "not accepted");
    assert.equal(tokens.check("Bearer first"), "accepted");
    assert.equal(tokens.check(`Bearer ${token}`), "not accepted");
  });
}

Deno.test("replace() takes back every token that is not among the new ones", () => {
  const tokens = new AcceptedTokens(["old", "kept"]);
  assert.equal(tokens.check("Bearer kept"), "accepted");
  assert.equal(tokens.check("Bearer old"), "accepted");
  tokens.replace(["kept", "new"]);
  assert.equal(tokens.check("Bearer old"), "not accepted");
  assert.equal(tokens.check("Bearer kept"), "accepted");
  assert.equal(tokens.check("Bearer new"), "accepted");
});

Deno.test("without tokens nothing is accepted", () => {
  const tokens = new AcceptedTokens([]);
  assert.equal(tokens.check("Bearer first"), "not accepted");
  assert.equal(tokens.check(null), "no token");
});
