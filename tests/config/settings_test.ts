import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { type Config, Settings } from "../../src/config/settings.ts";
import { TOKENS_MAX } from "../../src/tokens.ts";
import { EXIT_CONFIGURATION, OperatorError } from "../../src/operator_error.ts";
import { KV_TOKEN_VARIABLE } from "../../src/store/open.ts";
import { readConfig, SECRET, settings } from "../support/settings.ts";
import { fileAt } from "../support/stores.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Returns a check that an error is one line about the configuration. */
function configError(
  message: string | RegExp,
): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof OperatorError, String(error));
    assert.equal(error.exitStatus, EXIT_CONFIGURATION);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    assert.ok(!error.message.includes("\n"), error.message);
    assert.ok(!error.message.includes(SECRET), error.message);
    return true;
  };
}

/** Asserts that the service does not start with flags and variables. */
function assertRefused(
  flags: Record<string, string>,
  variables: Record<string, string>,
  message: string | RegExp,
): void {
  assert.throws(() => readConfig(flags, variables), configError(message));
}

Deno.test("Settings.config() returns the defaults if nothing is configured, or variables are empty", () => {
  const defaults = {
    host: "127.0.0.1",
    port: 8000,
    location: fileAt(resolve("plants.db")),
    mayCreateStore: true,
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    tls: undefined,
    logFormat: "text",
  };
  assert.deepEqual(readConfig(), defaults);
  const names = ["HOST", "PORT", "KV_PATH", "BASE_URL", "TLS_CERT", "TLS_KEY"];
  for (const name of [...names, "KV_CREATE", "LOG_FORMAT"]) {
    assert.deepEqual(readConfig({}, { [name]: "" }), defaults, name);
  }
});

/** What a setting accepts, as which value, and what it refuses. */
interface Row {
  readonly flag: string;
  readonly variable: string;
  readonly valueOf: (config: Config) => unknown;
  readonly accepted: readonly (readonly [text: string, value: unknown])[];
  readonly refused: readonly string[];
  readonly expected: string;
}

const PATH = "a path without control characters";

const ROWS: readonly Row[] = [
  {
    flag: "host",
    variable: "HOST",
    valueOf: ({ host }) => host,
    accepted: [["localhost", "localhost"], ["[::1]", "::1"], ["::", "::"]],
    refused: ["", "[]", "fe80::1%eth0", "[fe80::1%25eth0]"],
    expected: "an address without a zone, or a name",
  },
  {
    flag: "port",
    variable: "PORT",
    valueOf: ({ port }) => port,
    accepted: [["0", 0], ["00080", 80], ["65535", 65535]],
    refused: ["", "65536", "-1", " 80", "80 ", "8e3", "80.5", "0x50", "٣"],
    expected: "a whole number from 0 to 65535",
  },
  {
    flag: "kv",
    variable: "KV_PATH",
    valueOf: ({ location }) => location.name,
    accepted: [
      ["p.db", resolve("p.db")],
      ["/a/p.db", "/a/p.db"],
      ["a/https:b", resolve("a/https:b")],
      ["1s://x", resolve("1s:/x")],
      ["a/:memory:", resolve("a/:memory:")],
      ["HTTPS://KV.test/path", "https://kv.test/path"],
    ],
    refused: [
      "",
      "https://",
      "http://:99999/",
      "ftp://kv.test",
      "s3://x",
      "a.b+c-d://x",
      "xhttp://x",
      "HTTPSX://x",
      `http://${SECRET}@kv.test`,
      `http://:${SECRET}@kv.test`,
      `http://u:${SECRET}@`,
      ":memory:",
      "p.db\r",
      "a\nb",
      "\x7f",
      "\x1b[31m",
    ],
    expected:
      `${PATH}, other than :memory:, or an http or https URL without a user`,
  },
  {
    flag: "kv-create",
    variable: "KV_CREATE",
    valueOf: ({ mayCreateStore }) => mayCreateStore,
    accepted: [["yes", true], ["no", false]],
    refused: ["", "No", "false", "0", "no ", "yes\n"],
    expected: "yes|no",
  },
  {
    flag: "base-url",
    variable: "BASE_URL",
    valueOf: ({ baseUrl }) => baseUrl,
    accepted: [
      ["https://plants.example/", "https://plants.example"],
      ["HTTP://Plants.Example:80/", "http://plants.example"],
      ["http://plants.example/@api//", "http://plants.example/@api"],
    ],
    refused: [
      "",
      "plants.example",
      "/api",
      "ftp://a",
      "http://",
      "a:1",
      "http://a?x",
      "http://a/?",
      "http://a/b#c",
      "http://a/#",
      `http://${SECRET}@a`,
      `http://:${SECRET}@a`,
      "httpsx://a",
    ],
    expected: "an http or https URL without a user, a query or a fragment",
  },
  {
    flag: "log-format",
    variable: "LOG_FORMAT",
    valueOf: ({ logFormat }) => logFormat,
    accepted: [["text", "text"], ["json", "json"], ["journal", "journal"]],
    refused: ["", "JSON", "jsontext"],
    expected: "text|json|journal",
  },
];

for (const { flag, variable, valueOf, accepted, refused, expected } of ROWS) {
  const kvToken = { [KV_TOKEN_VARIABLE]: "a-token" };

  Deno.test(`Settings.config() reads --${flag} and ${variable}, and the flag wins`, () => {
    const [other] = accepted.at(-1) ?? [""];
    for (const [text, value] of accepted) {
      const ofVariable = readConfig({}, { ...kvToken, [variable]: text });
      assert.deepEqual(valueOf(ofVariable), value);
      const both = { ...kvToken, [variable]: other };
      assert.deepEqual(valueOf(readConfig({ [flag]: text }, both)), value);
    }
  });

  Deno.test(`Settings.config() names --${flag} or ${variable} if it is invalid, and shows no password`, () => {
    for (const text of refused) {
      const got = text.includes("@") ? "" : `, got ${JSON.stringify(text)}`;
      const message = text === ""
        ? ` is empty: expected ${expected}`
        : `: expected ${expected}${got}`;
      assertRefused({ [flag]: text }, kvToken, `--${flag}${message}`);
      if (text === "") continue;
      const variables = { ...kvToken, [variable]: text };
      assertRefused({}, variables, `${variable}${message}`);
    }
  });
}

const MOST = Array.from({ length: TOKENS_MAX }, (_, i) => `token-${i}`);
const TOKENS =
  "expected 1 to 100 tokens of letters, digits and -._~+/, with = at the end only";

Deno.test("Settings.config() reads tokens from ACCESS_TOKEN and from a file, once each, without white space", () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("tokens");
  for (
    const [variable, text, tokens] of [
      ["a", "a", ["a"]],
      [" a/b==,\tc ,d\n", " a/b==\r\n\n \t\nc\t\n\nd", ["a/b==", "c", "d"]],
      ["a,b,a", "\ufeffa\nb\na\n", ["a", "b"]],
      [[...MOST, ...MOST].join(), [...MOST, ...MOST].join("\n"), MOST],
    ] as const
  ) {
    assert.deepEqual(readConfig({}, { ACCESS_TOKEN: variable }).tokens, tokens);
    Deno.writeTextFileSync(file, text);
    const flags = { "token-file": file };
    for (
      const config of [
        readConfig(flags, { ACCESS_TOKEN_FILE: "/none" }),
        readConfig({}, { ACCESS_TOKEN_FILE: file }),
      ]
    ) {
      assert.deepEqual(config.tokens, tokens);
      assert.equal(config.tokenFile, file);
    }
  }
});

Deno.test("Settings.config() refuses an empty, invalid or missing token, and shows none", () => {
  using directory = new TemporaryDirectory();
  const file = directory.file("tokens");
  for (
    const [variable, text] of [
      ["", ""],
      [" ", " \n\r\n"],
      [`${SECRET},,a`, `${SECRET},a`],
      [`a,${SECRET} x`, `a\n${SECRET} x\n`],
      [`=${SECRET}`, `=${SECRET}`],
      [`${SECRET}=x`, `${SECRET}=x`],
      [`${SECRET}:`, `${SECRET}é`],
      [[...MOST, "b"].join(), [...MOST, "b"].join("\n")],
    ] as const
  ) {
    const what = variable === "" ? " is empty" : "";
    const message = `ACCESS_TOKEN${what}: ${TOKENS}`;
    assertRefused({}, { ACCESS_TOKEN: variable }, message);
    Deno.writeTextFileSync(file, text);
    const ofFile = `--token-file: ${TOKENS}, one per line, in ${file}`;
    assertRefused({ "token-file": file }, {}, ofFile);
  }
  Deno.writeFileSync(file, Uint8Array.of(0xff));
  assertRefused({ "token-file": file }, {}, /: expected 1 to 100 tokens /);
});

Deno.test("Settings.config() reads the token of a KV Connect server, trimmed, and shows no refused one", () => {
  const flags = { kv: "https://kv.test/" };
  const store = {
    setting: "--kv",
    kind: "server",
    name: flags.kv,
    token: SECRET,
  };
  const { location: found } = readConfig(flags, {
    [KV_TOKEN_VARIABLE]: ` ${SECRET}\n`,
  });
  assert.deepEqual(found, store);
  const missing =
    `${KV_TOKEN_VARIABLE} is not set: a KV Connect server needs its token`;
  assertRefused(flags, {}, missing);
  assertRefused(flags, { [KV_TOKEN_VARIABLE]: "" }, missing);
  const invalid =
    `${KV_TOKEN_VARIABLE}: expected a token without white space or characters beyond ASCII`;
  for (const token of [" \n", `${SECRET} x`, `${SECRET}\ny`, `${SECRET}é`]) {
    assertRefused(flags, { [KV_TOKEN_VARIABLE]: token }, invalid);
  }
});

Deno.test("Settings.config() refuses settings that need another one or exclude each other", () => {
  const both = "are both given: give one of them";
  const alone = "is given alone: give a certificate and its key";
  for (
    const [flags, variables, message] of [
      [
        { "token-file": "/none" },
        { ACCESS_TOKEN: SECRET },
        `ACCESS_TOKEN and --token-file ${both}`,
      ],
      [
        {},
        { ACCESS_TOKEN: SECRET, ACCESS_TOKEN_FILE: "/none" },
        `ACCESS_TOKEN and ACCESS_TOKEN_FILE ${both}`,
      ],
      [{ "tls-cert": "/c" }, {}, `--tls-cert ${alone}`],
      [{}, { TLS_CERT: "/c" }, `TLS_CERT ${alone}`],
      [{ "tls-key": "/k" }, {}, `--tls-key ${alone}`],
      [{}, { TLS_KEY: "/k" }, `TLS_KEY ${alone}`],
    ] as const
  ) assertRefused(flags, variables, message);
});

Deno.test("Settings.config() refuses the path of a file that is invalid or cannot be read, by the name that was written", () => {
  const cannotRead =
    "cannot read /none: No such file or directory (os error 2)";
  for (
    const [flags, variables, message] of [
      [{ "token-file": "" }, {}, `--token-file is empty: expected ${PATH}`],
      [
        {},
        { ACCESS_TOKEN_FILE: "" },
        `ACCESS_TOKEN_FILE is empty: expected ${PATH}`,
      ],
      [
        { "token-file": "t\r" },
        {},
        String.raw`--token-file: expected ${PATH}, got "t\r"`,
      ],
      [
        { "tls-cert": "c\r", "tls-key": "/k" },
        {},
        String.raw`--tls-cert: expected ${PATH}, got "c\r"`,
      ],
      [
        {},
        { TLS_CERT: "/c", TLS_KEY: "k\r" },
        String.raw`TLS_KEY: expected ${PATH}, got "k\r"`,
      ],
      [{ "token-file": "/none" }, {}, `--token-file: ${cannotRead}`],
      [{}, { TLS_CERT: "/none", TLS_KEY: "/none" }, `TLS_CERT: ${cannotRead}`],
    ] as const
  ) assertRefused(flags, variables, message);
});

Deno.test("Settings.config() refuses a variable that cannot be read, without the value in Deno's message", () => {
  const names = ["PORT", KV_TOKEN_VARIABLE, "DENO_SERVE_ADDRESS"];
  for (const name of names) {
    const unreadable = new Settings({ kv: "https://kv.test" }, (variable) => {
      if (variable === name) throw new Deno.errors.InvalidData(SECRET);
      return undefined;
    });
    const message =
      `cannot read ${name}: it is not UTF-8, or Deno needs --allow-env`;
    assert.throws(() => unreadable.config(), configError(message));
  }
});

Deno.test("Settings.config() and store() refuse the variables of Deno that make an answer untrue, whatever their values", () => {
  for (
    const [name, effect] of [
      ["DENO_SERVE_ADDRESS", "listen on another address"],
      ["DENO_KV_DB_MODE", "open another store"],
      ["DENO_KV_PATH_PREFIX", "open another store"],
    ] as const
  ) {
    for (const value of ["memory", "disk", "tcp:127.0.0.1:1", " ", "0"]) {
      const refused = configError(`unset ${name}, which makes Deno ${effect}`);
      const given = settings({}, { [name]: value });
      assert.throws(() => given.config(), refused);
      // A healthcheck opens no store, and does not listen.
      given.address();
      if (name === "DENO_SERVE_ADDRESS") given.store();
      else assert.throws(() => given.store(), refused);
    }
    assert.deepEqual(readConfig({}, { [name]: "" }), readConfig());
  }
});

Deno.test("Settings.store(), address() and isTls() ignore settings that they do not need", () => {
  const flags = { "tls-cert": "/none", "tls-key": "/none" };
  const env = {
    KV_CREATE: "maybe",
    ACCESS_TOKEN_FILE: "/none",
    ACCESS_TOKEN: "",
  };
  const { location, host, port, baseUrl } = readConfig();
  const found = settings(flags, env).store();
  assert.deepEqual(found, location);
  const other = settings(flags, { ...env, KV_PATH: "ftp://a" });
  assert.deepEqual(other.address(), { host, port, baseUrl });
  assert.ok(other.isTls());
  assert.ok(!settings({}, { TLS_CERT: "" }).isTls());
});

Deno.test("Settings.config() resolves the links in the path of the store, and reads the files of TLS", () => {
  using directory = new TemporaryDirectory();
  const link = directory.file("link");
  Deno.symlinkSync(directory.path, link);
  const [cert, key] = [directory.file("cert"), directory.file("key")];
  Deno.writeTextFileSync(cert, "the certificate");
  Deno.writeTextFileSync(key, "the key");
  const variables = { KV_PATH: join(link, "plants.db"), TLS_CERT: cert };
  const { location, tls } = readConfig({ "tls-key": key }, variables);
  assert.deepEqual(location, fileAt(directory.file("plants.db"), "KV_PATH"));
  assert.deepEqual(tls, { cert: "the certificate", key: "the key" });
});
