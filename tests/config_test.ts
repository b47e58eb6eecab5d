import assert from "node:assert/strict";
import { resolve } from "node:path";
import { Settings } from "../src/config.ts";
import { OperatorError } from "../src/operator_error.ts";
import {
  assertConfigError,
  assertRefused,
  readConfig,
  SECRET,
  settings,
} from "./support/settings.ts";
import { TemporaryDirectory } from "./support/temporary.ts";

const CERT = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

Deno.test("Settings.config() returns the defaults if nothing is configured", () => {
  assert.deepEqual(readConfig(), {
    host: "127.0.0.1",
    port: 8000,
    store: { kind: "file", path: resolve("plants.db") },
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    tls: undefined,
    logFormat: "text",
  });
});

Deno.test("Settings.config() counts an empty variable as unset", () => {
  const names = ["HOST", "PORT", "KV_PATH", "BASE_URL", "TLS_CERT", "TLS_KEY"];
  const deno = ["DENO_KV_DB_MODE", "DENO_KV_PATH_PREFIX"];
  for (const name of [...names, "LOG_FORMAT", ...deno]) {
    assert.deepEqual(readConfig({}, { [name]: "" }), readConfig(), name);
  }
});

Deno.test("Settings.config() refuses an empty token and an empty token file", () => {
  assertRefused({}, { ACCESS_TOKEN: "" }, /^ACCESS_TOKEN: .*got an empty one/);
  assertRefused(
    {},
    { ACCESS_TOKEN_FILE: "" },
    /^ACCESS_TOKEN_FILE: expected a file, got ""$/,
  );
});

for (
  const flag of [
    ...["--host", "--port", "--kv", "--token-file", "--base-url"],
    ...["--tls-cert", "--tls-key", "--log-format"],
  ]
) {
  Deno.test(`Settings.config() refuses an empty ${flag}`, () => {
    assertRefused({ [flag]: "" }, {}, new RegExp(`^${flag}: expected .*""$`));
  });
}

for (
  const [flag, variable, member, ofFlag, ofVariable] of [
    ["--host", "HOST", "host", "::1", "0.0.0.0"],
    ["--port", "PORT", "port", 1, 2],
    ["--base-url", "BASE_URL", "baseUrl", "http://flag.test", "http://v.test"],
    ["--log-format", "LOG_FORMAT", "logFormat", "text", "json"],
  ] as const
) {
  Deno.test(`Settings.config() reads ${variable}, and ${flag} wins`, () => {
    const env = { [variable]: `${ofVariable}` };
    assert.equal(readConfig({}, env)[member], ofVariable);
    assert.equal(readConfig({ [flag]: `${ofFlag}` }, env)[member], ofFlag);
    assert.equal(readConfig({ [flag]: `${ofFlag}` })[member], ofFlag);
  });
}

Deno.test("Settings.config() reads KV_PATH, and --kv wins", () => {
  const env = { KV_PATH: "variable.db" };
  const file = (name: string) => ({ kind: "file", path: resolve(name) });
  assert.deepEqual(readConfig({}, env).store, file("variable.db"));
  assert.deepEqual(readConfig({ "--kv": "/a/flag.db" }, env).store, {
    kind: "file",
    path: resolve("/a/flag.db"),
  });
  assert.deepEqual(readConfig({ "--kv": "--odd" }).store, file("--odd"));
});

Deno.test("Settings.config() refuses an invalid flag although its variable is valid", () => {
  assertRefused({ "--port": "x" }, { PORT: "1" }, /^--port/);
});

for (
  const [invalid, env] of [
    ["PORT", {}],
    ["DENO_KV_DB_MODE", {}],
    ["DENO_KV_PATH_PREFIX", {}],
    ["DENO_KV_ACCESS_TOKEN", { KV_PATH: "https://kv.test" }],
  ] as const
) {
  Deno.test(`Settings.config() refuses ${invalid} if it is not UTF-8`, () => {
    const variables = new Map<string, string>(Object.entries(env));
    const settings = new Settings(new Map(), {
      get: (name) => {
        if (name === invalid) throw new TypeError("invalid data");
        return variables.get(name);
      },
      set: () => {},
    });
    assert.throws(
      () => settings.config(),
      (error) =>
        assertConfigError(error, new RegExp(`^${invalid}: expected UTF-8$`)),
    );
  });
}

Deno.test("Settings.config() names the permission that Deno lacks to read a variable", () => {
  const message = 'Requires env access to "PORT"';
  const settings = new Settings(new Map(), {
    get: () => {
      throw new Deno.errors.NotCapable(message);
    },
    set: () => {},
  });
  assert.throws(
    () => settings.config(),
    (error) => assertConfigError(error, new RegExp(`^${message}$`)),
  );
});

for (
  const [host, expected] of [
    ["localhost"],
    ["plants_1.example."],
    ["x.1"],
    ["1.2.3.4"],
    ["::"],
    ["fe80::1%eth0"],
    ["::ffff:127.0.0.1"],
    ["[::1]", "::1"],
    ["[fe80::1%eth0]", "fe80::1%eth0"],
  ] as const
) {
  Deno.test(`Settings.config() accepts the host ${host}`, () => {
    assert.equal(readConfig({ "--host": host }).host, expected ?? host);
    assert.equal(readConfig({}, { HOST: host }).host, expected ?? host);
  });
}

for (
  const host of [
    ...["[]", "[", "::1]", "[::1", "[[::1]]", "[1.2.3.4]", "[localhost]"],
    ...["1.2.3.4:80", "localhost:80", "[::1]:80", ":80", ":::1", "fe80::1%"],
    ...["256.1.1.1", "1.2.3", "1.2.3.4.5", "127.0.0.01", "1", ".", "1.2.3.4."],
    ...["a..b", ".a", "a/b", "http://a", "a b", " ", "a\n", "\0", "ä", "*"],
    ...["x".repeat(64), "x.".repeat(127) + "x"],
  ]
) {
  const shown = host.length < 20 ? JSON.stringify(host) : `of ${host.length}`;
  Deno.test(`Settings.config() refuses the host ${shown}`, () => {
    const message = (name: string) =>
      new RegExp(`^${name}: expected an address such as 127.0.0.1, got "`);
    for (
      const [flags, env, name] of [
        [{ "--host": host }, {}, "--host"],
        [{}, { HOST: host }, "HOST"],
      ] as const
    ) {
      assert.throws(() => readConfig(flags, env), (error) => {
        assert.ok(error instanceof OperatorError);
        assert.match(error.message, message(name));
        return true;
      });
    }
  });
}

for (const port of ["0", "1", "00080", "65535"]) {
  Deno.test(`Settings.config() accepts the port ${port}`, () => {
    assert.equal(readConfig({ "--port": port }).port, Number(port));
  });
}

for (
  const port of [
    ...["65536", "-1", " 80", "80 ", "8e3", "80.5", "0x50", "99999999999"],
    ...["٣", "http"],
  ]
) {
  Deno.test(`Settings.config() refuses the port "${port}"`, () => {
    assertRefused({ "--port": port }, {}, /^--port: .*from 0 to 65535, got "/);
    assertRefused({}, { PORT: port }, /^PORT: .*from 0 to 65535, got "/);
  });
}

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
  Deno.test(`Settings.config() reads the base URL ${given} as ${expected}`, () => {
    assert.equal(readConfig({ "--base-url": given }).baseUrl, expected);
  });
}

for (
  const url of [
    ...["plants.example", "/api", "ftp://a", "file:///a", "http://", "a:1"],
    ...["http://a?x", "http://a/?", "http://a/b#c", "http://a/#", "http://u@a"],
    ...["http://u:secret@a", "http://a b"],
  ]
) {
  Deno.test(`Settings.config() refuses the base URL "${url}"`, () => {
    assertRefused(
      { "--base-url": url },
      {},
      /^--base-url: expected a URL such as https:/,
    );
  });
}

Deno.test("Settings.config() refuses an unknown log format", () => {
  assertRefused({}, { LOG_FORMAT: "JSON" }, /^LOG_FORMAT: .*json, got "JSON"$/);
});

Deno.test("Settings.store() trims the token of a KV Connect server for Deno", () => {
  const env = new Map([["DENO_KV_ACCESS_TOKEN", ` ${SECRET}\n`]]);
  const settings = new Settings(new Map([["--kv", "HTTPS://KV.test/path"]]), {
    get: (name) => env.get(name),
    set: (name, value) => void env.set(name, value),
  });
  assert.deepEqual(settings.store(), {
    kind: "server",
    url: "https://kv.test/path",
    token: SECRET,
  });
  assert.equal(env.get("DENO_KV_ACCESS_TOKEN"), SECRET);
});

Deno.test("Settings.store() refuses a KV Connect server without a token", () => {
  const flags = { "--kv": "https://kv.test" };
  const message = /^DENO_KV_ACCESS_TOKEN is not set: /;
  assertRefused(flags, {}, message);
  for (const token of ["", " \n"]) {
    assertRefused(flags, { DENO_KV_ACCESS_TOKEN: token }, message);
  }
});

for (const token of [`${SECRET} x`, `${SECRET}\ny`, `${SECRET}é`]) {
  Deno.test(`Settings.store() refuses the KV Connect token ${JSON.stringify(token)} and does not show it`, () => {
    assertRefused(
      { "--kv": "HTTPS://kv.test" },
      { DENO_KV_ACCESS_TOKEN: token },
      /^DENO_KV_ACCESS_TOKEN: expected a token without white space/,
    );
  });
}

for (
  const url of [
    ...["https://", "http://:99999/", "http:", "ftp://kv.test", "file:///a"],
    ...["http://u:secret@", "http://u:secret@kv.test"],
  ]
) {
  Deno.test(`Settings.store() refuses the URL "${url}"`, () => {
    assertRefused({ "--kv": url }, { DENO_KV_ACCESS_TOKEN: SECRET }, /^--kv: /);
  });
}

Deno.test("Settings.store() refuses a path with a null character", () => {
  assertRefused({ "--kv": "a\0b" }, {}, /^--kv: expected a file or a URL/);
});

Deno.test("Settings.store() refuses a variable of Deno that moves the store", () => {
  const env = { DENO_KV_PATH_PREFIX: "/elsewhere/" };
  assertRefused({}, env, /^DENO_KV_PATH_PREFIX .*: unset it$/);
});

Deno.test("Settings.store() refuses a store in memory, even if a file is named", () => {
  const env = { DENO_KV_DB_MODE: "memory" };
  assertRefused({}, env, /^DENO_KV_DB_MODE=memory .*: unset it$/);
  assertRefused({ "--kv": "/a/p.db" }, env, /^DENO_KV_DB_MODE=memory /);
  assert.deepEqual(readConfig({}, { DENO_KV_DB_MODE: "disk" }), readConfig());
});

Deno.test("Settings.store() and address() ignore settings they do not need", () => {
  const flags = { "--tls-cert": "/none", "--tls-key": "/none" };
  const env = { ACCESS_TOKEN_FILE: "/none", ACCESS_TOKEN: "" };
  assert.deepEqual(settings(flags, env).store(), readConfig().store);
  assert.deepEqual(settings(flags, { ...env, KV_PATH: "ftp://a" }).address(), {
    host: "127.0.0.1",
    port: 8000,
    baseUrl: undefined,
    isTls: true,
  });
});

Deno.test("Settings.config() reads the TLS files as a pair", () => {
  using directory = new TemporaryDirectory();
  const [cert, key] = [directory.file("cert.pem"), directory.file("key.pem")];
  Deno.writeTextFileSync(cert, CERT);
  Deno.writeTextFileSync(key, KEY);
  const pair = { cert: CERT, key: KEY };
  assert.deepEqual(
    readConfig({ "--tls-cert": cert, "--tls-key": key }).tls,
    pair,
  );
  assert.deepEqual(readConfig({}, { TLS_CERT: cert, TLS_KEY: key }).tls, pair);
  assert.deepEqual(
    readConfig({ "--tls-cert": cert }, { TLS_KEY: key }).tls,
    pair,
  );
});

Deno.test("Settings.config() refuses TLS files that are not a pair", () => {
  using directory = new TemporaryDirectory();
  const [cert, key] = [directory.file("cert.pem"), directory.file("key.pem")];
  Deno.writeTextFileSync(cert, CERT);
  Deno.writeTextFileSync(key, KEY);
  const cases: [Record<string, string>, RegExp][] = [
    [{ TLS_CERT: cert }, /^TLS_CERT is given without --tls-key: /],
    [{ TLS_KEY: key }, /^TLS_KEY is given without --tls-cert: /],
    [
      { TLS_CERT: key, TLS_KEY: cert },
      /^TLS_CERT: expected a certificate as PEM in \//,
    ],
    [
      { TLS_CERT: cert, TLS_KEY: cert },
      /^TLS_KEY: expected a private key as PEM in \//,
    ],
    [
      { TLS_CERT: directory.file("none"), TLS_KEY: key },
      /^TLS_CERT: cannot read \/.*none: no such file$/,
    ],
    [
      { TLS_CERT: cert, TLS_KEY: directory.path },
      /^TLS_KEY: cannot read \/.*: it is a directory$/,
    ],
  ];
  for (const [env, message] of cases) assertRefused({}, env, message);
});

for (
  const [form, locked] of [
    ["PKCS #8", KEY.replaceAll("PRIVATE", "ENCRYPTED PRIVATE")],
    ["older", KEY.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n")],
  ] as const
) {
  Deno.test(`Settings.config() refuses a TLS key with a passphrase in the ${form} form, and ignores one beside the certificate`, () => {
    using directory = new TemporaryDirectory();
    const [cert, key] = [directory.file("cert.pem"), directory.file("key.pem")];
    Deno.writeTextFileSync(cert, CERT);
    Deno.writeTextFileSync(key, locked);
    const flags = { "--tls-cert": cert, "--tls-key": key };
    assertRefused(flags, {}, /^--tls-key: .*key without a passphrase in \//);
    Deno.writeTextFileSync(key, KEY);
    Deno.writeTextFileSync(cert, CERT + locked);
    assert.equal(readConfig(flags).tls?.key, KEY);
  });
}
