import assert from "node:assert/strict";
import { reloadTokens } from "../src/config.ts";
import { TOKEN_FILE_BYTES_MAX } from "../src/limits.ts";
import {
  assertConfigError,
  assertRefused,
  readConfig,
  SECRET,
} from "./support/settings.ts";
import { TemporaryDirectory } from "./support/temporary.ts";

Deno.test("Settings.config() splits ACCESS_TOKEN at commas and ignores white space", () => {
  assert.deepEqual(readConfig({}, { ACCESS_TOKEN: "a" }).tokens, ["a"]);
  const { tokens } = readConfig({}, { ACCESS_TOKEN: " a/b==,\tc ,d\n" });
  assert.deepEqual(tokens, ["a/b==", "c", "d"]);
});

for (const list of [" ", ",", `${SECRET},`, `,${SECRET}`, `${SECRET},,a`]) {
  Deno.test(`Settings.config() refuses ACCESS_TOKEN "${list}" for an empty token`, () => {
    assertRefused(
      {},
      { ACCESS_TOKEN: list },
      /^ACCESS_TOKEN: expected a token, got an empty one: /,
    );
  });
}

for (
  const [list, which] of [
    [`${SECRET} x`, "the token"],
    [`${SECRET}é`, "the token"],
    [`=${SECRET}`, "the token"],
    [`${SECRET}=x`, "the token"],
    [`${SECRET}:x`, "the token"],
    [`a,${SECRET}\0`, "token 2"],
    [`a,b,${SECRET}é`, "token 3"],
  ] as const
) {
  Deno.test(`Settings.config() refuses ACCESS_TOKEN ${JSON.stringify(list)} and does not show it`, () => {
    assertRefused(
      {},
      { ACCESS_TOKEN: list },
      new RegExp(
        `^ACCESS_TOKEN: ${which} has a character that a bearer token `,
      ),
    );
  });
}

for (
  const [what, text, tokens] of [
    ["one line", "a", ["a"]],
    ["a line end", "a\n", ["a"]],
    ["CRLF line ends", "a\r\nb\r\n", ["a", "b"]],
    ["empty lines", "\n\na\n \t\nb\n\n", ["a", "b"]],
    ["white space around tokens", " a\t\n\tb ", ["a", "b"]],
    ["a byte order mark", "\ufeffa\nb", ["a", "b"]],
    ["its largest size", "a\n".repeat(TOKEN_FILE_BYTES_MAX / 2), undefined],
  ] as const
) {
  Deno.test(`Settings.config() and reloadTokens() read a token file with ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("tokens");
    Deno.writeTextFileSync(path, text);
    const ofFlag = readConfig({ "--token-file": path }, {
      ACCESS_TOKEN_FILE: "/none",
    });
    const tokenFile = { name: "--token-file", path };
    const expected = tokens ?? Array(TOKEN_FILE_BYTES_MAX / 2).fill("a");
    assert.deepEqual(ofFlag.tokens, expected);
    assert.deepEqual(ofFlag.tokenFile, tokenFile);
    assert.deepEqual(
      readConfig({}, { ACCESS_TOKEN_FILE: path }).tokens,
      expected,
    );
    assert.deepEqual(await reloadTokens(tokenFile), expected);
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
      `${"a\n".repeat(TOKEN_FILE_BYTES_MAX / 2)}\n`,
      /: it is larger than 1 MiB$/,
    ],
    ["is missing", undefined, /: no such file$/],
  ] as const
) {
  Deno.test(`Settings.config() and reloadTokens() refuse a token file that ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("tokens");
    if (typeof text === "string") Deno.writeTextFileSync(path, text);
    else if (text !== undefined) Deno.writeFileSync(path, text);
    assertRefused({ "--token-file": path }, {}, problem);
    assertRefused({}, { ACCESS_TOKEN_FILE: path }, /^ACCESS_TOKEN_FILE: /);
    await assert.rejects(
      reloadTokens({ name: "--token-file", path }),
      (error) =>
        assertConfigError(error, /^--token-file: .*\/tokens: /) &&
        assertConfigError(error, problem),
    );
  });
}

Deno.test("Settings.config() and reloadTokens() refuse a directory as the token file", async () => {
  using directory = new TemporaryDirectory();
  const { path } = directory;
  assertRefused({ "--token-file": path }, {}, /: it is a directory$/);
  await assert.rejects(
    reloadTokens({ name: "--token-file", path }),
    (error) => assertConfigError(error, /: it is not a regular file$/),
  );
});

Deno.test({
  name: "Settings.config() and reloadTokens() refuse a token file without end",
  ignore: Deno.build.os === "windows",
  async fn() {
    const path = "/dev/zero";
    assertRefused({ "--token-file": path }, {}, /: it is larger than 1 MiB$/);
    await assert.rejects(
      reloadTokens({ name: "--token-file", path }),
      (error) => assertConfigError(error, /: it is not a regular file$/),
    );
  },
});

Deno.test("Settings.config() refuses tokens in a variable and in a file", () => {
  assertRefused(
    { "--token-file": "/none" },
    { ACCESS_TOKEN: SECRET },
    /^ACCESS_TOKEN and --token-file are both given: give one of them$/,
  );
});
