import assert from "node:assert/strict";
import { readAgain } from "../../src/config/files.ts";
import { generateToken, readTokenFile } from "../../src/config/tokens.ts";
import { CONFIG_FILE_BYTES_MAX, TOKENS_MAX } from "../../src/limits.ts";
import {
  assertRefused,
  configError,
  readConfig,
  SECRET,
} from "../support/settings.ts";
import { test } from "../support/tests.ts";

/** Reloads a token file of the flag. */
function reload(path: string): readonly string[] {
  return readTokenFile({ name: "--token-file", path }, readAgain);
}

Deno.test("Settings.config() splits ACCESS_TOKEN at commas and ignores white space", () => {
  assert.deepEqual(readConfig({}, { ACCESS_TOKEN: "a" }).tokens, ["a"]);
  const { tokens } = readConfig({}, { ACCESS_TOKEN: " a/b==,\tc ,d\n" });
  assert.deepEqual(tokens, ["a/b==", "c", "d"]);
});

Deno.test("Settings.config() refuses an empty or invalid token in ACCESS_TOKEN, and does not show it", () => {
  const empty = "expected a token, got an empty one: ";
  for (
    const [list, message] of [
      ...["", " ", ",", `${SECRET},`, `${SECRET},,a`]
        .map((list) => [list, empty] as const),
      [`${SECRET} x`, "the token has a character that a bearer token "],
      [`=${SECRET}`, "the token has a character "],
      [`${SECRET}=x`, "the token has a character "],
      [`a,${SECRET}:x`, "token 2 has a character "],
      [`a,b,${SECRET}é`, "token 3 has a character "],
    ] as const
  ) {
    const pattern = new RegExp(`^ACCESS_TOKEN: ${message}`);
    assertRefused({}, { ACCESS_TOKEN: list }, pattern);
  }
});

for (
  const [what, text, tokens] of [
    ["one line", "a", ["a"]],
    ["CRLF line ends", "a\r\nb\r\n", ["a", "b"]],
    ["empty lines", "\n\na\n \t\nb\n\n", ["a", "b"]],
    ["white space around tokens", " a\t\n\tb ", ["a", "b"]],
    ["a byte order mark", "\ufeffa\nb", ["a", "b"]],
    ["its largest size", "\n".repeat(CONFIG_FILE_BYTES_MAX - 1) + "a", ["a"]],
  ] as const
) {
  test(`Settings.config() and readTokenFile() read a token file with ${what}`, ({ directory }) => {
    const path = directory.file("tokens");
    Deno.writeTextFileSync(path, text);
    const config = readConfig({ "--token-file": path }, {
      ACCESS_TOKEN_FILE: "/none",
    });
    assert.deepEqual(config.tokenFile, { name: "--token-file", path });
    assert.deepEqual(config.tokens, tokens);
    assert.deepEqual(reload(path), tokens);
    const { tokens: ofVariable } = readConfig({}, { ACCESS_TOKEN_FILE: path });
    assert.deepEqual(ofVariable, tokens);
  });
}

for (
  const [what, text, problem] of [
    ["is empty", "", /: expected a token, got an empty one: /],
    ["has only white space", " \n\r\n", /: expected a token, got an empty one/],
    ["has a comma", `${SECRET},a`, /: the token has a character /],
    ["has an invalid line", `a\n${SECRET} b\n`, /: token 2 has a character /],
    ["is not UTF-8", new Uint8Array([0xff]), /: the token has a character /],
    [
      "is too large",
      "\n".repeat(CONFIG_FILE_BYTES_MAX) + "a",
      /^--token-file: cannot read .*: it is larger than 1 MiB$/,
    ],
    [
      "is missing",
      undefined,
      /^--token-file: cannot read .*: No such file or directory/,
    ],
  ] as const
) {
  test(`Settings.config() and readTokenFile() refuse a token file that ${what}`, ({ directory }) => {
    const path = directory.file("tokens");
    if (typeof text === "string") Deno.writeTextFileSync(path, text);
    else if (text !== undefined) Deno.writeFileSync(path, text);
    assertRefused({ "--token-file": path }, {}, problem);
    assertRefused({}, { ACCESS_TOKEN_FILE: path }, /^ACCESS_TOKEN_FILE: /);
    assert.throws(() => reload(path), configError(problem));
    assert.throws(() => reload(path), /: --token-file: .*\/tokens: /);
  });
}

test("Settings.config() and readTokenFile() accept TOKENS_MAX tokens, repeated ones besides, and refuse one more", ({ directory }) => {
  const path = directory.file("tokens");
  const flags = { "--token-file": path };
  const most = Array.from({ length: TOKENS_MAX }, (_, i) => `token-${i}`);
  const repeated = [...most, ...most];
  Deno.writeTextFileSync(path, repeated.join("\n"));
  for (
    const found of [
      readConfig({}, { ACCESS_TOKEN: repeated.join() }).tokens,
      readConfig(flags).tokens,
      reload(path),
    ]
  ) assert.deepEqual(found, repeated);

  const tooMany = [...most, "another"];
  Deno.writeTextFileSync(path, tooMany.join("\n"));
  const problem =
    /: expected at most 100 tokens, got 101: remove those that no client uses$/;
  assertRefused({}, { ACCESS_TOKEN: tooMany.join() }, problem);
  assertRefused(flags, {}, problem);
  assert.throws(() => reload(path), configError(problem));
});

for (
  const [what, path, problem] of [
    ["a directory", Deno.cwd(), /: Is a directory/],
    ["a file without end", "/dev/zero", /: it is larger than 1 MiB$/],
  ] as const
) {
  Deno.test(`Settings.config() and readTokenFile() refuse ${what} as the token file`, () => {
    assertRefused({ "--token-file": path }, {}, problem);
    const refused = configError(/: it is not a regular file$/);
    assert.throws(() => reload(path), refused);
  });
}

Deno.test("Settings.config() refuses tokens in a variable and in a file", () => {
  assertRefused(
    { "--token-file": "/none" },
    { ACCESS_TOKEN: SECRET },
    /^ACCESS_TOKEN and --token-file are both given: give one of them$/,
  );
});

Deno.test("generateToken() returns 128 random bits as hexadecimal digits", () => {
  const tokens = Array.from({ length: 10 }, generateToken);
  for (const token of tokens) assert.match(token, /^[\da-f]{32}$/);
  assert.equal(new Set(tokens).size, tokens.length);
});
