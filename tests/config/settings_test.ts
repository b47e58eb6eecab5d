import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { Settings } from "../../src/config/settings.ts";
import {
  assertRefused,
  configError,
  readConfig,
  SECRET,
  settings,
} from "../support/settings.ts";
import { fileAt } from "../support/stores.ts";
import { test } from "../support/tests.ts";

/** The names of the settings of the address, if nothing is configured. */
const NAMES = {
  host: "--host",
  port: "--port",
  baseUrl: "--base-url",
  tlsCert: "--tls-cert",
  tlsKey: "--tls-key",
};

Deno.test("Settings.config() returns the defaults if nothing is configured", () => {
  assert.deepEqual(readConfig(), {
    host: "127.0.0.1",
    port: 8000,
    store: fileAt(resolve("plants.db")),
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    isTls: false,
    tls: undefined,
    logFormat: "text",
    names: NAMES,
  });
});

Deno.test("Settings.config() counts an empty variable as unset", () => {
  const names = ["HOST", "PORT", "KV_PATH", "BASE_URL", "TLS_CERT", "TLS_KEY"];
  for (const name of [...names, "LOG_FORMAT"]) {
    assert.deepEqual(readConfig({}, { [name]: "" }), readConfig(), name);
  }
});

for (
  const [flag, variable, member, ofFlag, ofVariable] of [
    ["--host", "HOST", "host", "::1", "0.0.0.0"],
    ["--port", "PORT", "port", 1, 2],
    ["--base-url", "BASE_URL", "baseUrl", "http://flag.test", "http://v.test"],
    ["--log-format", "LOG_FORMAT", "logFormat", "journal", "json"],
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

/** Returns settings from an environment in which a variable cannot be read. */
function unreadable(name: string, error: Error, flags = {}): Settings {
  return new Settings(new Map(Object.entries(flags)), {
    get(variable) {
      if (variable === name) throw error;
      return undefined;
    },
  });
}

Deno.test("Settings.config() refuses a variable that is not UTF-8, without its value, and one that Deno may not read", () => {
  // Deno's own message contains the value.
  const notUtf8 = new Deno.errors.InvalidData(SECRET);
  const message = 'Requires env access to "PORT"';
  const denied = new Deno.errors.NotCapable(message);
  const server = { "--kv": "https://kv.test" };
  for (
    const [settings, refused] of [
      [unreadable("PORT", notUtf8), "PORT: expected UTF-8"],
      [
        unreadable("DENO_KV_ACCESS_TOKEN", notUtf8, server),
        "DENO_KV_ACCESS_TOKEN: expected UTF-8",
      ],
      [unreadable("PORT", denied), message],
    ] as const
  ) {
    const error = configError(new RegExp(`^${refused}$`));
    assert.throws(() => settings.config(), error);
  }
});

Deno.test("Settings.store() reads the URL of a KV Connect server, and trims its token", () => {
  const env = { DENO_KV_ACCESS_TOKEN: ` ${SECRET}\n` };
  const store = settings({ "--kv": "HTTPS://KV.test/path" }, env).store();
  assert.deepEqual(store, {
    kind: "server",
    setting: "--kv",
    url: "https://kv.test/path",
    token: SECRET,
  });
});

Deno.test("Settings.store() refuses a KV Connect server without a valid token, which it does not show", () => {
  const invalid =
    /^DENO_KV_ACCESS_TOKEN: expected a token without white space or charac/;
  const missing = /^DENO_KV_ACCESS_TOKEN is not set: a KV Connect server needs/;
  for (
    const [token, message] of [
      ...["", " \n"].map((token) => [token, missing] as const),
      ...[`${SECRET} x`, `${SECRET}\ny`, `${SECRET}é`]
        .map((token) => [token, invalid] as const),
    ]
  ) {
    const env = { DENO_KV_ACCESS_TOKEN: token };
    assertRefused({ "--kv": "https://kv.test" }, env, message);
  }
  assertRefused({ "--kv": "https://kv.test" }, {}, missing);
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
    names: NAMES,
  });
  assert.equal(settings().address().isTls, false);
});

Deno.test("Settings.namedStore() reads the store that a flag or a variable names, and refuses the default", () => {
  for (
    const [flags, env, setting] of [
      [{ "--kv": "a.db" }, {}, "--kv"],
      [{}, { KV_PATH: "a.db" }, "KV_PATH"],
    ] as const
  ) {
    const store = fileAt(resolve("a.db"), setting);
    assert.deepEqual(settings(flags, env).namedStore(), store);
  }
  for (const env of [{}, { KV_PATH: "" }]) {
    const refused = configError(/^name the new store with --kv or KV_PATH$/);
    assert.throws(() => settings({}, env).namedStore(), refused);
  }
});

test("Settings.store() resolves the links in a path, and keeps the configured one", ({ directory }) => {
  const place = directory.file("place");
  const link = directory.file("link");
  Deno.mkdirSync(place);
  Deno.symlinkSync(place, link);
  assert.deepEqual(settings({ "--kv": join(link, "plants.db") }).store(), {
    kind: "file",
    setting: "--kv",
    path: Deno.realPathSync(place) + "/plants.db",
    configured: join(link, "plants.db"),
  });
});

test("Settings.config() reads TLS files, of flags and of variables", ({ directory }) => {
  const [cert, key] = [directory.file("cert"), directory.file("key")];
  Deno.writeTextFileSync(cert, "the certificate");
  Deno.writeTextFileSync(key, "the key");
  const tls = { cert: "the certificate", key: "the key" };
  const flags = { "--tls-cert": cert, "--tls-key": key };
  assert.deepEqual(readConfig(flags).tls, tls);
  const variables = { TLS_CERT: cert, TLS_KEY: key };
  assert.deepEqual(readConfig({}, variables).tls, tls);
});

Deno.test("Settings.config() refuses a missing TLS file, and one without the other", () => {
  const missing = /^TLS_CERT: cannot read \/none: No such file or directory/;
  assertRefused({}, { TLS_CERT: "/none", TLS_KEY: "/k" }, missing);
  const noKey = /^TLS_CERT is given without --tls-key: give both/;
  assertRefused({}, { TLS_CERT: "/c" }, noKey);
  const noCert = /^TLS_KEY is given without --tls-cert: give both/;
  assertRefused({}, { TLS_KEY: "/k" }, noCert);
});
