import assert from "node:assert/strict";
import { DENO_OLDEST, warningsOf } from "../../src/console/warnings.ts";
import { isMissing } from "../support/needs.ts";
import { readConfig } from "../support/settings.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

/** Asserts what a start at an address, by default of loopback, warns of. */
function assertWarning(
  message: string | undefined,
  address = "http://127.0.0.1:8000",
  flags: Readonly<Record<string, string>> = {},
  options: { readonly deno?: string; readonly nowMs?: number } = {},
): void {
  const all = { deno: DENO_OLDEST, ...options };
  const warnings = warningsOf(readConfig(flags), address, all);
  assert.deepEqual(
    [...warnings.values()],
    message === undefined ? [] : [message],
  );
}

Deno.test("warningsOf() warns of an address for clients other than loopback without https", () => {
  const clear = (url: string) =>
    `${url} is not https, so tokens are sent in clear text: set TLS_CERT and ` +
    "TLS_KEY, or the https address of a proxy as BASE_URL";
  const hosts = [
    "0.0.0.0",
    "[::]",
    "10.127.0.1",
    "127.example",
    "plants.example",
    "localhost.example",
  ];
  for (const host of hosts) {
    const [address, https] = [`http://${host}:8000`, `https://${host}:8000`];
    assertWarning(clear(address), address);
    assertWarning(undefined, https);
    // Clients call the base URL, wherever the service listens.
    const url = { "base-url": `http://${host}/api` };
    assertWarning(clear(url["base-url"]), undefined, url);
    assertWarning(clear(url["base-url"]), address, url);
    assertWarning(undefined, address, { "base-url": `https://${host}` });
  }
  for (
    const host of [
      "127.0.0.1",
      "127.9.9.9",
      "[::1]",
      "localhost",
      "a.localhost",
    ]
  ) {
    const address = `http://${host}:8000`;
    assertWarning(undefined, address);
    // A container that is published on loopback.
    assertWarning(undefined, "http://0.0.0.0:8000", { "base-url": address });
  }
});

Deno.test("warningsOf() warns of short tokens that other machines may guess", () => {
  const message =
    "tokens with fewer than 16 characters can be guessed: replace 2bb80d53 " +
    "by the output of openssl rand -hex 32";
  const https = { "base-url": "https://plants.example" };
  const [local, other] = ["http://127.0.0.1:8000", "https://10.0.0.1:8000"];
  const long = "x".repeat(16);
  for (
    const [tokens, address, flags, expected] of [
      [`${long},secret`, other, {}, [message]],
      [`${long},secret`, local, https, [message]],
      [`${long},secret`, local, {}, []],
      [long, other, https, []],
    ] as const
  ) {
    const config = readConfig(flags, { ACCESS_TOKEN: tokens });
    const warnings = warningsOf(config, address, { deno: DENO_OLDEST });
    assert.deepEqual([...warnings.values()], expected);
  }
});

Deno.test("warningsOf() warns of a Deno older than the oldest without known faults", () => {
  for (
    const [deno, isOld] of [
      [DENO_OLDEST, false],
      ["2.9.10", false],
      ["2.10.0", false],
      ["2.9.5", true],
      ["2.8.10", true],
    ] as const
  ) {
    const message =
      `Deno ${deno} is older than ${DENO_OLDEST}: it closes connections ` +
      "after larger bodies, or can corrupt a store that two processes use";
    assertWarning(isOld ? message : undefined, undefined, {}, { deno });
  }
});

Deno.test("warningsOf() warns of a base URL to which clients would append /plants again", () => {
  for (const path of ["/plants", "/api/plants"]) {
    const url = `https://plants.example${path}`;
    const message =
      `creates go to ${url}/plants: remove /plants from the base URL`;
    // The slash at the end is not a part of it.
    assertWarning(message, undefined, { "base-url": `${url}/` });
  }
  for (const path of ["", "/", "/plants/api", "/house-plants", "/Plants"]) {
    const url = `https://plants.example${path}`;
    assertWarning(undefined, undefined, { "base-url": url });
  }
});

Deno.test({
  name:
    "warningsOf() warns of a certificate that is not valid yet, or no longer within a week",
  ignore: isMissing("openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(directory, "plants");
    const args = ["x509", "-in", cert, "-noout", "-dates"];
    const dates = await runTool("openssl", args);
    const [from = "", to = ""] = Array.from(
      dates.matchAll(/=(.*)/g),
      ([, date]) => date,
    );
    const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
    const message = `clients accept the certificate from ${from} to ${to} only`;
    // The certificate of the service is the first one, after a key and text.
    const other = await makeCertificate(directory, "other");
    const pem = [key, cert, other.cert]
      .map((file) => `localKeyID: 01\n${Deno.readTextFileSync(file)}`).join("");
    Deno.writeTextFileSync(cert, pem);
    const weekMs = 7 * 24 * 60 * 60 * 1000;
    const flags = { "tls-cert": cert, "tls-key": key };
    for (
      const [nowMs, expected] of [
        [fromMs - 1, message],
        [fromMs, undefined],
        [toMs - weekMs, undefined],
        [toMs - weekMs + 1, message],
        [toMs + 1, message],
      ] as const
    ) assertWarning(expected, undefined, flags, { nowMs });
    // The runtime may serve one that Node cannot read.
    const unreadable = pem.replace(/(CERTIFICATE-----\n)[^-]+/, "$1AAAA\n");
    for (const text of ["none", unreadable]) {
      Deno.writeTextFileSync(cert, text);
      assertWarning(undefined, undefined, flags);
    }
  },
});

Deno.test("warningsOf() warns of saved plants of a lost store beside a file", () => {
  using directory = new TemporaryDirectory();
  const kv = directory.file("plants.db");
  assertWarning(undefined, undefined, { kv });
  Deno.writeTextFileSync(`${directory.file("other.db")}.saved-1.jsonl`, "");
  assertWarning(undefined, undefined, { kv });
  Deno.writeTextFileSync(`${kv}.saved-1.jsonl`, "");
  const message = "plants.db.saved-1.jsonl has plants of a lost store";
  assertWarning(message, undefined, { kv });
});
