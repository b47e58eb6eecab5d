import assert from "node:assert/strict";
import { resolve } from "node:path";
import { ALL_SETTINGS } from "../../src/config/settings.ts";
import { check } from "../../src/commands/check.ts";
import { capture } from "../support/console.ts";
import { needs } from "../support/needs.ts";
import { SECRET, settings } from "../support/settings.ts";
import { test } from "../support/tests.ts";
import { makeCertificate } from "../support/tools.ts";

const withOpenssl = needs("openssl");

/** Asserts what check() prints about a valid configuration. */
async function assertPrinted(
  flags: Record<string, string>,
  variables: Record<string, string>,
  lines: readonly string[],
): Promise<void> {
  const printed = await capture(() => check(settings(flags, variables)));
  const stdout = lines.map((line) => `${line}\n`).join("");
  assert.deepEqual(printed, { result: 0, stdout, stderr: "" });
}

Deno.test("check() prints a line for each setting that applies, with the flag or the variable that has it, and no secret", async () => {
  await assertPrinted({}, {}, [
    "listens on 127.0.0.1 (default)",
    "listens on port 8000 (default)",
    `stores plants in ${resolve("plants.db")} (default)`,
    "generates a token (default)",
    "is reached at the address it listens on (default)",
    "serves http (default)",
    "logs as text (default)",
  ]);
  const flags = {
    port: "0",
    kv: "https://kv.test",
    "base-url": "https://plants.example/api",
  };
  const variables = {
    HOST: "localhost",
    PORT: "1",
    ACCESS_TOKEN: `${SECRET},b`,
    DENO_KV_ACCESS_TOKEN: SECRET,
    LOG_FORMAT: "json",
  };
  await assertPrinted(flags, variables, [
    "listens on localhost (HOST)",
    "takes a free port (--port)",
    "stores plants in https://kv.test/ (--kv)",
    "its token is set (DENO_KV_ACCESS_TOKEN)",
    "accepts 2 tokens (ACCESS_TOKEN)",
    "is reached at https://plants.example/api (--base-url)",
    "serves http (default)",
    "logs as json (LOG_FORMAT)",
  ]);
});

withOpenssl.test("check() reads the certificate and the tokens of files", async ({ directory }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  const file = directory.file("tokens");
  Deno.writeTextFileSync(file, SECRET);
  const flags = { "tls-cert": cert, "token-file": file };
  const given = settings(flags, { TLS_KEY: key });
  const { stdout } = await capture(() => check(given));
  const ofFile = `accepts 1 token in ${file} (--token-file)\n`;
  assert.ok(stdout.includes(ofFile), stdout);
  const https = `serves https with the certificate in ${cert} (--tls-cert)\n` +
    `its key is in ${key} (TLS_KEY)\n`;
  assert.ok(stdout.includes(https), stdout);
});

withOpenssl.test("check() names each setting that has a value", async ({ directory }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, SECRET);
  const values: Record<string, string> = {
    HOST: "127.0.0.1",
    PORT: "0",
    KV_PATH: "https://kv.test",
    DENO_KV_ACCESS_TOKEN: SECRET,
    BASE_URL: "https://plants.example",
    TLS_CERT: cert,
    TLS_KEY: key,
    LOG_FORMAT: "json",
  };
  // The service accepts tokens of one of them only.
  const sources = [{ ACCESS_TOKEN: SECRET }, { ACCESS_TOKEN_FILE: tokens }];
  const named = new Set<string>();
  for (const source of sources) {
    const given = { ...values, ...source };
    const { stdout } = await capture(() => check(settings({}, given)));
    assert.ok(!stdout.includes(SECRET), stdout);
    const names = Array.from(stdout.matchAll(/ \((\w+)\)\n/g), ([, it]) => it);
    assert.deepEqual(new Set(names), new Set(Object.keys(given)));
    for (const name of names) named.add(`${name}`);
  }
  const variables = ALL_SETTINGS.map(({ variable }) => variable);
  assert.deepEqual(named, new Set(variables));
});

test("check() opens no store and leaves the configured port alone", async ({ directory, store }) => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const flags = { port: `${port}`, kv: store };
  const { result, stdout } = await capture(() => check(settings(flags)));
  assert.equal(result, 0);
  assert.ok(stdout.includes(`listens on port ${port} (--port)`), stdout);
  assert.deepEqual(directory.names(), []);
});

Deno.test("check() refuses what a start would refuse, with the same line, and prints nothing else", async () => {
  for (
    const [variables, message] of [
      [{ PORT: "80000" }, /^PORT: expected a whole number from 0 to 65535/],
      [{ ACCESS_TOKEN: "" }, /^ACCESS_TOKEN: expected 1 to 100 tokens/],
      // RFC 5737 reserves the address for documentation.
      [{ HOST: "192.0.2.1" }, /^cannot listen on 192\.0\.2\.1 port 8000: /],
    ] as const
  ) {
    const refused = { name: "OperatorError", message };
    const { stdout } = await capture(() =>
      assert.rejects(check(settings({}, variables)), refused)
    );
    assert.equal(stdout, "");
  }
});
