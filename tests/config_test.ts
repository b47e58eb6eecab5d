import assert from "node:assert/strict";
import { resolve } from "node:path";
import { type Config, readTokenFile, Settings } from "../src/config.ts";
import { StartError } from "../src/operator_error.ts";
import { TemporaryDirectory } from "./support/program.ts";

const CERT = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

/** An environment of its own. */
function environment(values: Record<string, string>): typeof Deno.env {
  const map = new Map(Object.entries(values));
  return {
    get: (name) => map.get(name),
    set: (name, value) => void map.set(name, value),
    delete: (name) => void map.delete(name),
    has: (name) => map.has(name),
    toObject: () => Object.fromEntries(map),
  };
}

function read(
  flags: Record<string, string> = {},
  env: Record<string, string> = {},
): Config {
  return new Settings(new Map(Object.entries(flags)), environment(env))
    .config();
}

/** Asserts that reading is refused, as something to configure. */
function assertRefused(run: () => unknown, says: RegExp): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof StartError, String(error));
    assert.equal(error.exitStatus, 2);
    assert.match(error.message, says);
    assert.doesNotMatch(error.message, /\n|secret/);
    return true;
  });
}

Deno.test("a variable that is not UTF-8 is refused by name", () => {
  const remote = { KV_PATH: "https://kv.test" };
  for (
    const [broken, env] of [
      ["PORT", {}],
      ["DENO_KV_DB_MODE", {}],
      ["DENO_KV_PATH_PREFIX", {}],
      ["DENO_KV_ACCESS_TOKEN", remote],
    ] as const
  ) {
    const given = environment(env);
    const settings = new Settings(new Map(), {
      ...given,
      get: (name) => {
        if (name === broken) throw new TypeError("invalid data");
        return given.get(name);
      },
    });
    assertRefused(
      () => settings.config(),
      new RegExp(`^${broken}: expected UTF-8$`),
    );
  }
});

Deno.test("a host is taken as it stands in a URL, too", () => {
  assert.equal(read({ "--host": "[::1]" }).host, "::1");
});

Deno.test("config() has the defaults where nothing is given", () => {
  assert.deepEqual(read(), {
    host: "127.0.0.1",
    port: 8000,
    store: resolve("plants.db"),
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    tls: undefined,
    logFormat: "text",
  });
});

for (
  const [flag, variable, member, ofFlag, ofVariable] of [
    ["--host", "HOST", "host", "::1", "0.0.0.0"],
    ["--port", "PORT", "port", 1, 2],
    ["--kv", "KV_PATH", "store", resolve("/a/f.db"), resolve("/a/v.db")],
    ["--base-url", "BASE_URL", "baseUrl", "http://flag.test", "http://v.test"],
    ["--log-format", "LOG_FORMAT", "logFormat", "text", "json"],
  ] as const
) {
  Deno.test(`${variable} counts, and ${flag} wins over it`, () => {
    const env = { [variable]: `${ofVariable}` };
    assert.equal(read({}, env)[member], ofVariable);
    assert.equal(read({ [flag]: `${ofFlag}` }, env)[member], ofFlag);
    assert.equal(read({ [flag]: `${ofFlag}` })[member], ofFlag);
  });
}

Deno.test("a bad flag is not made good by its variable", () => {
  assertRefused(() => read({ "--port": "x" }, { PORT: "1" }), /^--port/);
});

for (const port of ["0", "1", "00080", "65535"]) {
  Deno.test(`the port ${port} is taken`, () => {
    assert.equal(read({ "--port": port }).port, Number(port));
  });
}

for (
  const port of [
    "65536",
    "-1",
    "",
    " 80",
    "80 ",
    "8e3",
    "0x50",
    "99999999999",
    "٣",
  ]
) {
  Deno.test(`the port "${port}" is refused`, () => {
    assertRefused(() => read({ "--port": port }), /^--port: .*0 to 65535/);
  });
}

for (const host of ["", " ", "a b", "a/b", "http://a", "a\n"]) {
  Deno.test(`the host ${JSON.stringify(host)} is refused`, () => {
    assert.throws(() => read({}, { HOST: host }), StartError);
  });
}

Deno.test("tokens are separated by commas, with white space around them", () => {
  assert.deepEqual(read({}, { ACCESS_TOKEN: "a" }).tokens, ["a"]);
  const { tokens } = read({}, { ACCESS_TOKEN: " a/b==,\tc ,d\n" });
  assert.deepEqual(tokens, ["a/b==", "c", "d"]);
});

for (const list of ["", " ", ",", "secret,", ",secret", "secret,,a"]) {
  Deno.test(`ACCESS_TOKEN "${list}" is refused for an empty token`, () => {
    const env = { ACCESS_TOKEN: list };
    assertRefused(() => read({}, env), /^ACCESS_TOKEN: .*empty/);
  });
}

for (
  const list of ["secret x", "secreté", "=secret", "secret:x", "a,secret\0"]
) {
  Deno.test(`ACCESS_TOKEN ${JSON.stringify(list)} is refused, not shown`, () => {
    const env = { ACCESS_TOKEN: list };
    assertRefused(() => read({}, env), /^ACCESS_TOKEN: .*character/);
  });
}

for (
  const [what, text, tokens] of [
    ["one line", "a", ["a"]],
    ["a last line end", "a\n", ["a"]],
    ["line ends of Windows", "a\r\nb\r\n", ["a", "b"]],
    ["empty lines", "\n\na\n \t\nb\n\n", ["a", "b"]],
    ["white space around tokens", " a\t\n\tb ", ["a", "b"]],
  ] as const
) {
  Deno.test(`a token file with ${what} is read`, () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("tokens");
    Deno.writeTextFileSync(path, text);
    assert.deepEqual(readTokenFile({ name: "--token-file", path }), tokens);
    const flags = { "--token-file": path };
    const config = read(flags, { ACCESS_TOKEN_FILE: "/none" });
    assert.deepEqual(config.tokens, tokens);
    assert.deepEqual(config.tokenFile, { name: "--token-file", path });
    const ofVariable = read({}, { ACCESS_TOKEN_FILE: path });
    assert.deepEqual(ofVariable.tokens, tokens);
  });
}

for (
  const [what, text, says] of [
    ["nothing", "", /tokens: .*empty/],
    ["white space", " \n\r\n", /tokens: .*empty/],
    ["a comma", "secret,a", /tokens: .*character/],
    [
      "a second line that is none",
      "a\nsecret b\n",
      /tokens: token 2 .*character/,
    ],
  ] as const
) {
  Deno.test(`a token file with ${what} is refused`, () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("tokens");
    Deno.writeTextFileSync(path, text);
    assertRefused(() => read({ "--token-file": path }), /^--token-file: /);
    assertRefused(() => read({ "--token-file": path }), says);
  });
}

Deno.test("a token file that cannot be read is refused", () => {
  using directory = new TemporaryDirectory();
  for (const path of [directory.file("none"), directory.path]) {
    assertRefused(
      () => read({}, { ACCESS_TOKEN_FILE: path }),
      /^ACCESS_TOKEN_FILE: cannot read \//,
    );
  }
});

Deno.test("tokens in both places are refused", () => {
  assertRefused(
    () => read({ "--token-file": "/none" }, { ACCESS_TOKEN: "secret" }),
    /ACCESS_TOKEN and --token-file are both given/,
  );
});

for (
  const [given, expected] of [
    ["https://plants.example", "https://plants.example"],
    ["https://plants.example/", "https://plants.example"],
    ["HTTP://Plants.Example:80/", "http://plants.example"],
    ["http://plants.example:8080/api/v1", "http://plants.example:8080/api/v1"],
    ["http://plants.example/api//", "http://plants.example/api"],
    ["http://[::1]:8000/a", "http://[::1]:8000/a"],
  ] as const
) {
  Deno.test(`the base URL ${given} is ${expected}`, () => {
    assert.equal(read({ "--base-url": given }).baseUrl, expected);
  });
}

for (
  const url of [
    ...["", "plants.example", "/api", "ftp://a", "file:///a", "http://", "a:1"],
    ...[
      "http://a?x",
      "http://a/b#c",
      "http://u@a",
      "http://u:secret@a",
      "http://a b",
    ],
  ]
) {
  Deno.test(`the base URL "${url}" is refused`, () => {
    assert.throws(() => read({ "--base-url": url }), (error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, /^--base-url: expected a URL such as https:/);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  });
}

Deno.test("a KV Connect URL needs a token, which is trimmed for Deno", () => {
  const kv = { "--kv": "HTTPS://KV.test/path" };
  assertRefused(() => read(kv), /^DENO_KV_ACCESS_TOKEN is not set/);
  for (const token of ["", " \n", "secret x", "secret\ny", "secreté"]) {
    const env = { DENO_KV_ACCESS_TOKEN: token };
    assertRefused(() => read(kv, env), /^DENO_KV_ACCESS_TOKEN/);
  }
  const env = environment({ DENO_KV_ACCESS_TOKEN: " secret\n" });
  const { store } = new Settings(new Map(Object.entries(kv)), env).config();
  assert.equal(String(store), "https://kv.test/path");
  assert.equal(env.get("DENO_KV_ACCESS_TOKEN"), "secret");
});

Deno.test("a KV Connect URL that is none is refused", () => {
  const env = { DENO_KV_ACCESS_TOKEN: "secret" };
  assertRefused(() => read({ "--kv": "https://" }, env), /^--kv: /);
});

for (const url of ["http://u:secret@kv.test", "http://u:secret@"]) {
  Deno.test(`the KV Connect URL "${url}" is refused and not shown`, () => {
    const env = { DENO_KV_ACCESS_TOKEN: "secret" };
    assert.throws(() => read({ "--kv": url }, env), (error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, /^--kv: expected a URL /);
      assert.doesNotMatch(error.message, /secret|@kv/);
      return true;
    });
  });
}

Deno.test("a store that Deno's own variable moves elsewhere is refused", () => {
  const env = { DENO_KV_PATH_PREFIX: "/elsewhere/" };
  assertRefused(() => read({}, env), /^DENO_KV_PATH_PREFIX .*: unset it$/);
});

Deno.test("a store in memory is refused, also where a file is named", () => {
  const env = { DENO_KV_DB_MODE: "memory" };
  assertRefused(() => read({}, env), /DENO_KV_DB_MODE/);
  assertRefused(() => read({ "--kv": "/a/p.db" }, env), /DENO_KV_DB_MODE/);
  const { store } = read({}, { DENO_KV_DB_MODE: "disk" });
  assert.equal(store, resolve("plants.db"));
});

for (const path of ["", "a\0b", "ftp://kv.test", "file:///a"]) {
  Deno.test(`the store ${JSON.stringify(path)} is refused`, () => {
    assertRefused(() => read({ "--kv": path }), /^--kv: /);
  });
}

Deno.test("TLS files are read as a pair", () => {
  using directory = new TemporaryDirectory();
  const [cert, key] = [directory.file("cert.pem"), directory.file("key.pem")];
  Deno.writeTextFileSync(cert, CERT);
  Deno.writeTextFileSync(key, KEY);
  const pair = { cert: CERT, key: KEY };
  assert.deepEqual(read({ "--tls-cert": cert, "--tls-key": key }).tls, pair);
  assert.deepEqual(read({}, { TLS_CERT: cert, TLS_KEY: key }).tls, pair);
  assert.deepEqual(read({ "--tls-cert": cert }, { TLS_KEY: key }).tls, pair);
  assertRefused(() => read({ "--tls-cert": cert }), /--tls-cert .*--tls-key/);
  assertRefused(() => read({}, { TLS_KEY: key }), /TLS_KEY .*--tls-cert/);
  const exchanged = { "--tls-cert": key, "--tls-key": cert };
  assertRefused(() => read(exchanged), /^--tls-cert: .*certificate as PEM/);
  const twice = { "--tls-cert": cert, "--tls-key": cert };
  assertRefused(() => read(twice), /^--tls-key: .*private key as PEM/);
  const none = { "--tls-cert": directory.file("none"), "--tls-key": key };
  assertRefused(() => read(none), /^--tls-cert: cannot read .*no such file/);
});

Deno.test("a TLS key with a passphrase is refused, also in its older form, and no matter beside a certificate", () => {
  using directory = new TemporaryDirectory();
  const [cert, key] = [directory.file("cert.pem"), directory.file("key.pem")];
  Deno.writeTextFileSync(cert, CERT);
  for (
    const locked of [
      KEY.replaceAll("PRIVATE", "ENCRYPTED PRIVATE"),
      KEY.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n"),
    ]
  ) {
    Deno.writeTextFileSync(key, locked);
    assertRefused(
      () => read({ "--tls-cert": cert, "--tls-key": key }),
      /^--tls-key: .*without a passphrase/,
    );
    Deno.writeTextFileSync(key, KEY);
    Deno.writeTextFileSync(cert, CERT + locked);
    const { tls } = read({ "--tls-cert": cert, "--tls-key": key });
    assert.equal(tls?.key, KEY);
  }
});

Deno.test("a log format that is none is refused", () => {
  assertRefused(
    () => read({}, { LOG_FORMAT: "JSON" }),
    /^LOG_FORMAT: .*"JSON"/,
  );
});
