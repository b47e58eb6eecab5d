import assert from "node:assert/strict";
import { reloadTokens } from "../src/config_files.ts";
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
    [`a,${SECRET}:x`, "token 2"],
    [`a,b,${SECRET}é`, "token 3"],
  ] as const
) {
  Deno.test(`Settings.config() refuses ACCESS_TOKEN "${list}" and does not show it`, () => {
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
    ["CRLF line ends", "a\r\nb\r\n", ["a", "b"]],
    ["empty lines", "\n\na\n \t\nb\n\n", ["a", "b"]],
    ["white space around tokens", " a\t\n\tb ", ["a", "b"]],
    ["a byte order mark", "\ufeffa\nb", ["a", "b"]],
    [
      "its largest size",
      "a\n".repeat(TOKEN_FILE_BYTES_MAX / 2),
      Array(TOKEN_FILE_BYTES_MAX / 2).fill("a"),
    ],
  ] as const
) {
  Deno.test(`Settings.config() and reloadTokens() read a token file with ${what}`, async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("tokens");
    Deno.writeTextFileSync(path, text);
    const config = readConfig({ "--token-file": path }, {
      ACCESS_TOKEN_FILE: "/none",
    });
    const tokenFile = { name: "--token-file", path };
    assert.deepEqual(config.tokenFile, tokenFile);
    assert.deepEqual(config.tokens, tokens);
    assert.deepEqual(await reloadTokens(tokenFile), tokens);
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
      `${"a\n".repeat(TOKEN_FILE_BYTES_MAX / 2)}\n`,
      /^--token-file: cannot read .*: it is larger than 1 MiB$/,
    ],
    ["is missing", undefined, /^--token-file: cannot read .*: no such file$/],
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

for (
  const [what, path, problem] of [
    ["a directory", Deno.cwd(), /: it is a directory$/],
    ["a file without end", "/dev/zero", /: it is larger than 1 MiB$/],
  ] as const
) {
  Deno.test({
    name:
      `Settings.config() and reloadTokens() refuse ${what} as the token file`,
    ignore: Deno.build.os === "windows",
    async fn() {
      assertRefused({ "--token-file": path }, {}, problem);
      await assert.rejects(
        reloadTokens({ name: "--token-file", path }),
        (error) => assertConfigError(error, /: it is not a regular file$/),
      );
    },
  });
}

Deno.test("reloadTokens() returns the tokens that the file has when the reload ends", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("tokens");
  Deno.writeTextFileSync(path, "revoked");
  const reloading = reloadTokens({ name: "--token-file", path });
  Deno.writeTextFileSync(path, "new");
  assert.deepEqual(await reloading, ["new"]);
});

Deno.test("Settings.config() refuses tokens in a variable and in a file", () => {
  assertRefused(
    { "--token-file": "/none" },
    { ACCESS_TOKEN: SECRET },
    /^ACCESS_TOKEN and --token-file are both given: give one of them$/,
  );
});

const CERT = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
const EC_KEY = KEY.replaceAll("PRIVATE", "EC PRIVATE");

/** Private keys with a passphrase, in the form of PKCS #8 and the older one. */
const LOCKED_KEYS = [
  KEY.replaceAll("PRIVATE", "ENCRYPTED PRIVATE"),
  KEY.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n"),
];

/** Writes a certificate and a key, and returns the flags that name them. */
function writeTls(directory: TemporaryDirectory, cert: string, key: string) {
  const [certFile, keyFile] = [directory.file("cert"), directory.file("key")];
  Deno.writeTextFileSync(certFile, cert);
  Deno.writeTextFileSync(keyFile, key);
  return { "--tls-cert": certFile, "--tls-key": keyFile };
}

for (
  const [what, cert, key] of [
    ["of one certificate and a key", CERT, KEY],
    ["of a chain and an EC key", CERT + CERT, EC_KEY],
    ["with locked keys beside the certificate", CERT + LOCKED_KEYS[0], KEY],
  ] as const
) {
  Deno.test(`Settings.config() reads TLS files ${what}`, () => {
    using directory = new TemporaryDirectory();
    const flags = writeTls(directory, cert, key);
    assert.deepEqual(readConfig(flags).tls, { cert, key });
    const env = { TLS_CERT: flags["--tls-cert"], TLS_KEY: flags["--tls-key"] };
    assert.deepEqual(readConfig({}, env).tls, { cert, key });
  });
}

for (
  const [what, cert, key, message] of [
    ["swapped", KEY, CERT, /^--tls-cert: expected a certificate as PEM in \//],
    ["without a key", CERT, CERT, /^--tls-key: expected a private key as PEM/],
    ...LOCKED_KEYS.map((key) =>
      [
        `with the key ${key.slice(11, 50)}`,
        CERT,
        key,
        /^--tls-key: expected a key without a passphrase in \/.*\/key$/,
      ] as const
    ),
  ] as const
) {
  Deno.test(`Settings.config() refuses TLS files ${what}`, () => {
    using directory = new TemporaryDirectory();
    assertRefused(writeTls(directory, cert, key), {}, message);
  });
}

for (
  const [env, message] of [
    [{ TLS_CERT: "/c" }, /^TLS_CERT is given without --tls-key: give both/],
    [{ TLS_KEY: "/k" }, /^TLS_KEY is given without --tls-cert: give both/],
    [
      { TLS_CERT: "/none", TLS_KEY: "/k" },
      /^TLS_CERT: cannot read \/none: no such file$/,
    ],
  ] as const
) {
  Deno.test(`Settings.config() refuses ${Object.entries(env).join(" ")}`, () => {
    assertRefused({}, env, message);
  });
}

for (const flag of ["--token-file", "--tls-cert", "--tls-key"]) {
  Deno.test(`Settings.config() refuses an empty ${flag}`, () => {
    const message = new RegExp(`^${flag}: expected a file, got ""$`);
    assertRefused({ [flag]: "" }, {}, message);
  });
}
