import assert from "node:assert/strict";
import { assertRefused, readConfig } from "../support/settings.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

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

Deno.test("Settings.config() reads TLS files, of flags and of variables", () => {
  for (
    const [cert, key] of [
      [CERT, KEY],
      [CERT + CERT, EC_KEY],
      // Only the key that is used must not have a passphrase.
      [CERT + LOCKED_KEYS[0], KEY],
    ] as const
  ) {
    using directory = new TemporaryDirectory();
    const flags = writeTls(directory, cert, key);
    assert.deepEqual(readConfig(flags).tls, { cert, key });
    const env = { TLS_CERT: flags["--tls-cert"], TLS_KEY: flags["--tls-key"] };
    assert.deepEqual(readConfig({}, env).tls, { cert, key });
  }
});

Deno.test("Settings.config() refuses TLS files without a certificate, or without a key that needs no passphrase", () => {
  const locked =
    /^--tls-key: expected a key without a passphrase in \/.*\/key$/;
  for (
    const [cert, key, message] of [
      [KEY, CERT, /^--tls-cert: expected a certificate as PEM in \//],
      [CERT, CERT, /^--tls-key: expected a private key as PEM/],
      ...LOCKED_KEYS.map((key) => [CERT, key, locked] as const),
    ] as const
  ) {
    using directory = new TemporaryDirectory();
    assertRefused(writeTls(directory, cert, key), {}, message);
  }
});

Deno.test("Settings.config() refuses a missing TLS file, and one without the other", () => {
  const missing = /^TLS_CERT: cannot read \/none: no such file$/;
  assertRefused({}, { TLS_CERT: "/none", TLS_KEY: "/k" }, missing);
  const noKey = /^TLS_CERT is given without --tls-key: give both/;
  assertRefused({}, { TLS_CERT: "/c" }, noKey);
  const noCert = /^TLS_KEY is given without --tls-cert: give both/;
  assertRefused({}, { TLS_KEY: "/k" }, noCert);
});
