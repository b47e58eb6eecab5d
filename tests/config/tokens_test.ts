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

const MOST = Array.from({ length: TOKENS_MAX }, (_, i) => `token-${i}`);
const TOO_MANY =
  ": expected at most 100 tokens, got 101: remove those that no client uses$";

/** Reloads a token file of the flag. */
function reload(path: string): readonly string[] {
  return readTokenFile({ name: "--token-file", path }, readAgain);
}

Deno.test("Settings.config() splits ACCESS_TOKEN at commas and ignores white space", () => {
  assert.deepEqual(readConfig({}, { ACCESS_TOKEN: "a" }).tokens, ["a"]);
  const { tokens } = readConfig({}, { ACCESS_TOKEN: " a/b==,\tc ,d\n" });
  assert.deepEqual(tokens, ["a/b==", "c", "d"]);
  const most = [...MOST, ...MOST];
  assert.deepEqual(readConfig({}, { ACCESS_TOKEN: most.join() }).tokens, most);
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
      [[...MOST, "b"].join(), TOO_MANY.slice(2)],
    ] as const
  ) {
    const pattern = new RegExp(`^ACCESS_TOKEN: ${message}`);
    assertRefused({}, { ACCESS_TOKEN: list }, pattern);
  }
});

const CANNOT_READ = String.raw`^--token-file: cannot read .*: `;

for (
  const [what, text, tokens] of [
    ["one line", "a", ["a"]],
    ["CRLF line ends", "a\r\nb\r\n", ["a", "b"]],
    ["empty lines", "\n\na\n \t\nb\n\n", ["a", "b"]],
    ["white space around tokens", " a\t\n\tb ", ["a", "b"]],
    ["a byte order mark", "\xef\xbb\xbfa\nb", ["a", "b"]],
    ["its largest size", "\n".repeat(CONFIG_FILE_BYTES_MAX - 1) + "a", ["a"]],
    ["TOKENS_MAX tokens", [...MOST, ...MOST].join("\n"), [...MOST, ...MOST]],
    ["no tokens", "", ": expected a token, got an empty one: "],
    ["only white space", " \n\r\n", ": expected a token, got an empty one"],
    ["a comma", `${SECRET},a`, ": the token has a character "],
    ["an invalid line", `a\n${SECRET} b\n`, ": token 2 has a character "],
    ["another encoding", "\xff", ": the token has a character "],
    ["too many tokens", [...MOST, "b"].join("\n"), TOO_MANY],
    [
      "too many bytes",
      "\n".repeat(CONFIG_FILE_BYTES_MAX) + "a",
      `${CANNOT_READ}it is larger than 1 MiB$`,
    ],
    ["no name", undefined, `${CANNOT_READ}No such file or directory`],
  ] as const
) {
  const verb = typeof tokens === "string" ? "refuse" : "read";
  test(`Settings.config() and readTokenFile() ${verb} a token file with ${what}`, ({ directory }) => {
    const path = directory.file("tokens");
    const flags = { "--token-file": path };
    const env = { ACCESS_TOKEN_FILE: path };
    if (text !== undefined) {
      Deno.writeFileSync(path, Uint8Array.from(text, (it) => it.charCodeAt(0)));
    }
    if (typeof tokens === "string") {
      const problem = new RegExp(tokens);
      assertRefused(flags, {}, problem);
      assertRefused({}, env, /^ACCESS_TOKEN_FILE: /);
      assert.throws(() => reload(path), configError(problem));
      return;
    }
    const config = readConfig(flags, { ACCESS_TOKEN_FILE: "/none" });
    const tokenFile = { name: "--token-file", path };
    assert.deepEqual(config.tokenFile, tokenFile);
    for (const found of [config.tokens, readConfig({}, env).tokens]) {
      assert.deepEqual(found, tokens);
    }
    assert.deepEqual(reload(path), tokens);
  });
}

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
