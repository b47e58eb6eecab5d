import assert from "node:assert/strict";
import { fstatSync } from "node:fs";
import { resolve } from "node:path";
import { Settings } from "../../src/config/settings.ts";
import {
  assertConfigError,
  assertRefused,
  readConfig,
  SECRET,
  settings,
} from "../support/settings.ts";

Deno.test("Settings.config() returns the defaults if nothing is configured", () => {
  assert.deepEqual(readConfig(), {
    host: "127.0.0.1",
    port: 8000,
    store: { kind: "file", path: resolve("plants.db") },
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    isTls: false,
    tls: undefined,
    logFormat: "text",
  });
});

Deno.test("Settings.config() counts an empty variable as unset", () => {
  const names = ["HOST", "PORT", "KV_PATH", "BASE_URL", "TLS_CERT", "TLS_KEY"];
  const deno = [
    "DENO_KV_DB_MODE",
    "DENO_KV_PATH_PREFIX",
    "DENO_SERVE_ADDRESS",
  ];
  for (const name of [...names, "LOG_FORMAT", ...deno]) {
    assert.deepEqual(readConfig({}, { [name]: "" }), readConfig(), name);
  }
});

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
    assertRefused({ [flag]: " " }, env, new RegExp(`^${flag}: .*, got " "$`));
    assertRefused({}, { [variable]: " " }, new RegExp(`^${variable}: `));
  });
}

for (
  const [invalid, env] of [
    ["PORT", {}],
    ["DENO_KV_DB_MODE", {}],
    ["DENO_KV_PATH_PREFIX", {}],
    ["DENO_SERVE_ADDRESS", {}],
    ["DENO_KV_ACCESS_TOKEN", { KV_PATH: "https://kv.test" }],
  ] as const
) {
  Deno.test(`Settings.config() refuses ${invalid} if it is not UTF-8`, () => {
    const variables = new Map<string, string>(Object.entries(env));
    const settings = new Settings(new Map(), {
      get(name) {
        // Deno's own message contains the value.
        if (name === invalid) throw new Deno.errors.InvalidData(SECRET);
        return variables.get(name);
      },
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
    get() {
      throw new Deno.errors.NotCapable(message);
    },
  });
  assert.throws(
    () => settings.config(),
    (error) => assertConfigError(error, new RegExp(`^${message}$`)),
  );
});

Deno.test("Settings.config() accepts a host, without brackets", () => {
  for (
    const host of [
      ...["localhost", "plants_1.example.", "3com.example", "_a._1-", "a-b"],
      ...["x".repeat(63), `a.${"x".repeat(63)}`, "1.2.3.4", "::"],
      ...["::ffff:127.0.0.1", "[::1]", "[fe80::1%eth0]", "a.b"],
    ]
  ) {
    const expected = host.replaceAll(/[[\]]/g, "");
    assert.equal(readConfig({ "--host": host }).host, expected);
  }
});

Deno.test("Settings.config() refuses what is not a host", () => {
  for (
    const host of [
      ...["", "[]", "[", "::1]", "[::1", "[[::1]]", "[1.2.3.4]", "[localhost]"],
      ...["1.2.3.4:80", "localhost:80", "[::1]:80", ":80", ":::1", "fe80::1%"],
      ...["256.1.1.1", "1.2.3", "127.0.0.01", "1", ".", "1.2.3.4.", "a..b"],
      ...[".a", "a/b", "http://a", "a b", "a\n", "ä", "*", "x[::1]"],
      ...["x".repeat(64), `a.${"x".repeat(64)}`],
    ]
  ) {
    assert.throws(() => readConfig({ "--host": host }), {
      name: "OperatorError",
      message: `--host: expected an address such as 127.0.0.1, got "${host}"`,
    });
  }
});

Deno.test("Settings.config() accepts a port from 0 to 65535, and nothing else", () => {
  for (const port of ["0", "00080", "65535"]) {
    assert.equal(readConfig({ "--port": port }).port, Number(port));
  }
  for (
    const port of [
      ...["", "65536", "-1", " 80", "80 ", "8e3", "80.5", "0x50", "000080"],
      ...["٣", "http"],
    ]
  ) {
    const message = /^--port: expected a whole number from 0 to 65535, got "/;
    assertRefused({ "--port": port }, {}, message);
  }
});

Deno.test("Settings.config() reads the base URL, without a slash at its end", () => {
  for (
    const [given, expected] of [
      ["https://plants.example/", "https://plants.example"],
      ["HTTP://Plants.Example:80/", "http://plants.example"],
      ["http://plants.example/@api//", "http://plants.example/@api"],
      ["http://[::1]:8000/a", "http://[::1]:8000/a"],
    ] as const
  ) assert.equal(readConfig({ "--base-url": given }).baseUrl, expected);
});

Deno.test("Settings.config() refuses what is not a base URL", () => {
  for (
    const url of [
      ...["", "plants.example", "/api", "ftp://a", "http://", "a:1"],
      ...["http://a?x", "http://a/?", "http://a/b#c", "http://a/#"],
      ...["xhttp://a", "httpsx://a", "http://secret@a", "http://:secret@a"],
      ...["http://u:secret@a"],
    ]
  ) {
    assertRefused(
      { "--base-url": url },
      {},
      /^--base-url: expected a URL such as .*, got (one with an @|".*")$/,
    );
  }
});

Deno.test("Settings.logFormat() refuses other formats", () => {
  for (const format of ["", "JSON", "xml", "jsontext"]) {
    const message = /^--log-format: expected text or json, got "\w*"$/;
    assertRefused({ "--log-format": format }, {}, message);
  }
});

Deno.test("Settings.logFormat() has the levels of systemd in a text for its journal", () => {
  const { dev, ino } = fstatSync(2);
  const env = { JOURNAL_STREAM: `${dev}:${ino}` };
  assert.equal(readConfig({}, env).logFormat, "journal");
  assert.equal(readConfig({ "--log-format": "json" }, env).logFormat, "json");
  // A terminal or a file in a session of systemd inherits the variable.
  for (const other of ["", `${dev}:${ino + 1}`, `${dev + 1}:${ino}`]) {
    assert.equal(readConfig({}, { JOURNAL_STREAM: other }).logFormat, "text");
  }
});

Deno.test("Settings.store() reads a file, and --kv wins", () => {
  for (
    const path of ["p.db", "/a/p.db", "--odd", "a/https:b", "a:b", "1s://x"]
  ) {
    const store = { kind: "file", path: resolve(path) };
    assert.deepEqual(settings({}, { KV_PATH: path }).store(), store);
    const env = { KV_PATH: "other.db" };
    assert.deepEqual(settings({ "--kv": path }, env).store(), store);
  }
});

Deno.test("Settings.store() reads the URL of a KV Connect server, and trims its token", () => {
  const env = { DENO_KV_ACCESS_TOKEN: ` ${SECRET}\n` };
  assert.deepEqual(settings({ "--kv": "HTTPS://KV.test/path" }, env).store(), {
    kind: "server",
    url: "https://kv.test/path",
    token: SECRET,
  });
});

Deno.test("Settings.store() refuses a KV Connect server without a token", () => {
  const flags = { "--kv": "https://kv.test" };
  const message = /^DENO_KV_ACCESS_TOKEN is not set: a KV Connect server needs/;
  assertRefused(flags, {}, message);
  for (const token of ["", " \n"]) {
    assertRefused(flags, { DENO_KV_ACCESS_TOKEN: token }, message);
  }
});

Deno.test("Settings.store() refuses an invalid KV Connect token, and does not show it", () => {
  for (const token of [`${SECRET} x`, `${SECRET}\ny`, `${SECRET}é`]) {
    assertRefused(
      { "--kv": "http://kv.test" },
      { DENO_KV_ACCESS_TOKEN: token },
      /^DENO_KV_ACCESS_TOKEN: expected a token without white space or charac/,
    );
  }
});

Deno.test("Settings.store() refuses what is neither a file nor an http URL", () => {
  for (
    const url of [
      ...["https://", "http://:99999/", "http:", "ftp://kv.test", "s://x"],
      ...["s3://x", "a.b://x", "a+b://x", "a-b://x", "xhttp://x", "HTTPSX://x"],
      ...[
        "http://secret@kv.test",
        "http://:secret@kv.test",
        "http://u:secret@",
      ],
      ...["http://u:secret@kv.test", ""],
    ]
  ) {
    assertRefused(
      { "--kv": url },
      { DENO_KV_ACCESS_TOKEN: "a-token" },
      /^--kv: expected a file,? or a URL.*, got (one with an @|"\S*")$/,
    );
  }
});

Deno.test("Settings.config() refuses a variable of Deno that overrides the address, moves the store or stores nothing", () => {
  for (
    const [variable, value, effect] of [
      [
        "DENO_SERVE_ADDRESS",
        "tcp:127.0.0.2:0",
        " would override --host and --port",
      ],
      ["DENO_KV_PATH_PREFIX", "/elsewhere/", " would move .*"],
      ["DENO_KV_DB_MODE", "memory", "=memory would store no plant"],
    ] as const
  ) {
    const message = new RegExp(`^${variable}${effect}: unset it$`);
    const env = { [variable]: value };
    assertRefused({}, env, message);
    assertRefused({ "--port": "80", "--kv": "/a/p.db" }, env, message);
    // Other commands do not listen.
    assert.equal(settings({}, env).address().port, 8000);
  }
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
  assert.equal(settings().address().isTls, false);
});
