import assert from "node:assert/strict";
import { resolve } from "node:path";
import { check } from "../../src/commands/check.ts";
import { ALL_SETTINGS } from "../../src/config/settings.ts";
import { capture } from "../support/console.ts";
import { SECRET, settings } from "../support/settings.ts";
import { test } from "../support/tests.ts";
import { makeCertificate, withOpenssl } from "../support/tools.ts";

Deno.test("check() prints a line for each setting, with the flag or the variable that has it", async () => {
  for (
    const [flags, variables, lines] of [
      [{}, {}, [
        "listens on 127.0.0.1 (default)",
        "listens on port 8000 (default)",
        `stores plants in ${resolve("plants.db")} (default)`,
        "generates a token (default)",
        "is reached at http://127.0.0.1:8000 (default)",
        "serves http (default)",
        "logs as text (default)",
      ]],
      [
        {
          "--port": "0",
          "--kv": "https://kv.test",
          "--base-url": "https://plants.example/api",
        },
        {
          HOST: "localhost",
          PORT: "1",
          ACCESS_TOKEN: `${SECRET},${SECRET},b`,
          DENO_KV_ACCESS_TOKEN: SECRET,
          LOG_FORMAT: "json",
        },
        [
          "listens on localhost (HOST)",
          "takes a free port (--port)",
          "stores plants in https://kv.test/ (--kv)",
          "accepts 2 tokens (ACCESS_TOKEN)",
          "is reached at https://plants.example/api (--base-url)",
          "serves http (default)",
          "logs as json (LOG_FORMAT)",
        ],
      ],
    ] as const
  ) {
    const printed = await capture(() => check(settings(flags, variables)));
    assert.equal(printed.result, 0);
    assert.deepEqual(printed.stdout.split("\n"), [...lines, ""]);
    assert.equal(printed.stderr, "");
  }
});

withOpenssl.test("check() prints a line for every setting that exists", async ({ directory }) => {
  const { cert, key } = await makeCertificate(directory, "plants");
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, SECRET);
  const given = {
    ...{ HOST: "127.0.0.1", PORT: "0", KV_PATH: "plants.db" },
    ...{ BASE_URL: "https://plants.example", LOG_FORMAT: "json" },
    ...{ TLS_CERT: cert, TLS_KEY: key },
  };
  const lines: string[] = [];
  for (
    const token of [{ ACCESS_TOKEN: SECRET }, { ACCESS_TOKEN_FILE: tokens }]
  ) {
    const all = settings({}, { ...given, ...token });
    const { stdout } = await capture(() => check(all));
    lines.push(...stdout.trimEnd().split("\n"));
  }
  assert.ok(lines.includes("serves https (TLS_CERT)"), `${lines}`);
  const ofFile = `accepts 1 token in ${tokens} (ACCESS_TOKEN_FILE)`;
  assert.ok(lines.includes(ofFile), `${lines}`);
  const named = lines.map((line) => /\((\w+)\)$/.exec(line)?.[1]);
  // The certificate and its key have one line.
  const all = new Set(ALL_SETTINGS.map(({ variable }) => variable));
  assert.deepEqual(new Set([...named, "TLS_KEY"]), all);
});

test("check() opens no store and leaves the configured port alone", async ({ directory, store }) => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const flags = { "--port": `${port}`, "--kv": store };
  const { result, stdout } = await capture(() => check(settings(flags)));
  assert.equal(result, 0);
  assert.ok(stdout.includes(`listens on port ${port} (--port)`), stdout);
  assert.deepEqual(directory.names(), []);
});

Deno.test("check() refuses what a start would refuse, with the same line, and prints nothing else", async () => {
  for (
    const [env, message] of [
      [{ PORT: "80000" }, /^PORT: expected a whole number from 0 to 65535/],
      [{ ACCESS_TOKEN: "" }, /^ACCESS_TOKEN: expected a token/],
      // RFC 5737 reserves the address for documentation.
      [
        { HOST: "192.0.2.1" },
        /^cannot listen on 192\.0\.2\.1 port 8000: .*: choose another HOST$/,
      ],
    ] as const
  ) {
    const refused = { name: "OperatorError", message };
    const { stdout } = await capture(() =>
      assert.rejects(check(settings({}, env)), refused)
    );
    assert.equal(stdout, "");
  }
});
