import assert from "node:assert/strict";
import { assertRefused, readConfig } from "../support/settings.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Certificates for plants.test, and when they expire. */
const CERT = `-----BEGIN CERTIFICATE-----
MIIBQjCB9aADAgECAhRV+XyWsaRvwJgkY5/fO+FXbmV/WjAFBgMrZXAwFjEUMBIG
A1UEAwwLcGxhbnRzLnRlc3QwIBcNMjYxMTI0MTIxOTExWhgPMjEyNjEwMzExMjE5
MTFaMBYxFDASBgNVBAMMC3BsYW50cy50ZXN0MCowBQYDK2VwAyEAT6cd4WK1gctP
n8F+Q3+aauY/OZaqtNo+nR6FrUB36P6jUzBRMB0GA1UdDgQWBBThnvoWuKOprvxu
MyJu8lZptM8lUTAfBgNVHSMEGDAWgBThnvoWuKOprvxuMyJu8lZptM8lUTAPBgNV
HRMBAf8EBTADAQH/MAUGAytlcANBAGa3etTbUxR+u2K6WzsESK2FFBXheSODklHY
MXD0VNwsujaIyL+qGzBuhiYpLb+E1zVj7nM27X1nU5EXbybQEQU=
-----END CERTIFICATE-----
`;
const EXPIRES = new Date("2126-10-31T12:19:11Z");
const OTHER_CERT = `-----BEGIN CERTIFICATE-----
MIIBQDCB86ADAgECAhRjkjfWYbcJGQ4umWhsY+uItmPN2zAFBgMrZXAwFjEUMBIG
A1UEAwwLcGxhbnRzLnRlc3QwHhcNMjYxMTI0MTIxOTExWhcNMjYxMTI1MTIxOTEx
WjAWMRQwEgYDVQQDDAtwbGFudHMudGVzdDAqMAUGAytlcAMhAAC2zJkn7hgZnFA2
YceHkhIWAuJ6EjN0ks8xtJzjCJVEo1MwUTAdBgNVHQ4EFgQUuI3u/rl7ocW1+jfR
e6WGyP1o4akwHwYDVR0jBBgwFoAUuI3u/rl7ocW1+jfRe6WGyP1o4akwDwYDVR0T
AQH/BAUwAwEB/zAFBgMrZXADQQAuSRuYzUrPUeAW3w+QbpOxAuJ0Ztbw0CQEiOVP
cqkdqinQmUOGI3y9k17Q93iMoBvsBcY0iw4P9Ex+kZ1wFQcL
-----END CERTIFICATE-----
`;
const OTHER_EXPIRES = new Date("2026-11-25T12:19:11Z");

const NO_CERT = CERT.replace(/\n[^]*\n-/, "\nAAAA\n-");
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
    const [cert, key, expires] of [
      [CERT, KEY, EXPIRES],
      // The certificate of the server is the first one.
      [OTHER_CERT + CERT, EC_KEY, OTHER_EXPIRES],
      [`text\n${CERT}${NO_CERT}`.replaceAll("\n", "\r\n"), KEY, EXPIRES],
      // Only the key that is used must not have a passphrase.
      [LOCKED_KEYS[0] + CERT, KEY, EXPIRES],
    ] as const
  ) {
    using directory = new TemporaryDirectory();
    const flags = writeTls(directory, cert, key);
    const path = flags["--tls-cert"];
    const pair = { cert, key };
    const certFile = { name: "--tls-cert", path };
    assert.deepEqual(readConfig(flags).tls, { pair, certFile, expires });
    const env = { TLS_CERT: path, TLS_KEY: flags["--tls-key"] };
    const ofVariable = { pair, certFile: { name: "TLS_CERT", path }, expires };
    assert.deepEqual(readConfig({}, env).tls, ofVariable);
  }
});

Deno.test("Settings.config() refuses TLS files without a certificate, or without a key that needs no passphrase", () => {
  const noCertificate =
    /^--tls-cert: expected a certificate as PEM in \/.*\/cert$/;
  const locked =
    /^--tls-key: expected a key without a passphrase in \/.*\/key$/;
  for (
    const [cert, key, message] of [
      [KEY, CERT, noCertificate],
      [NO_CERT, KEY, noCertificate],
      [NO_CERT + CERT, KEY, noCertificate],
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
