import assert from "node:assert/strict";
import { check } from "../../src/commands/check.ts";
import { ALL_SETTINGS } from "../../src/config/settings.ts";
import { capture } from "../support/console.ts";
import { isMissing } from "../support/needs.ts";
import { makeStore, newPlants } from "../support/plants.ts";
import {
  assertOneLine,
  assertSucceeded,
  Program,
  replyStatus,
  runProgram,
  untilReady,
} from "../support/program.ts";
import { SECRET, settings } from "../support/settings.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate, runTool } from "../support/tools.ts";

/** Asserts what check() prints about a valid configuration. */
async function assertPrinted(
  flags: Record<string, string>,
  variables: Record<string, string>,
  lines: readonly string[],
  stderr = "",
): Promise<void> {
  const printed = await capture(() => check(settings(flags, variables)));
  const stdout = lines.map((line) => `${line}\n`).join("");
  assert.deepEqual(printed, { result: 0, stdout, stderr });
}

Deno.test("check() prints a line for each setting that applies, and which are defaults", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await assertPrinted({}, { KV_PATH: store }, [
    "listens on 127.0.0.1 (default)",
    "listens on port 8000 (default)",
    `creates a new store in ${store} (KV_PATH)`,
    "creates a store if there is none (default)",
    "generates a token (default)",
    "is reached at the address it listens on (default)",
    "serves http (default)",
    "logs as text (default)",
  ]);
});

Deno.test("check() names the flag or the variable that has a setting, prints no secret", async () => {
  const flags = {
    port: "0",
    kv: "https://kv.test",
    "base-url": "https://plants.example/api",
  };
  const variables = {
    HOST: "localhost",
    PORT: "1",
    ACCESS_TOKEN: `${SECRET},b`,
    // Does not apply to a server.
    KV_CREATE: "no",
    DENO_KV_ACCESS_TOKEN: SECRET,
    LOG_FORMAT: "json",
  };
  await assertPrinted(
    flags,
    variables,
    [
      "listens on localhost (HOST)",
      "takes a free port (--port)",
      "stores plants in https://kv.test/ (--kv)",
      "its token is set (DENO_KV_ACCESS_TOKEN)",
      "accepts 2 tokens: 2bb80d53, 3e23e816 (ACCESS_TOKEN)",
      "is reached at https://plants.example/api (--base-url)",
      "serves http (default)",
      "logs as json (LOG_FORMAT)",
    ],
    `warning: tokens with fewer than 16 characters can be guessed: replace 2bb80d53, 3e23e816 by the output of openssl rand -hex 32`,
  );
});

Deno.test("check() warns of tokens in clear text at the address of the host, as a start does", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  for (
    const [flags, warning] of [
      [{ host: "0.0.0.0" }, "http://0.0.0.0:8000 is not https"],
      [{ host: "0.0.0.0", port: "9" }, "http://0.0.0.0:9 is not https"],
      [{ host: "::" }, "http://[::]:8000 is not https"],
      [{ "base-url": "http://plants.example" }, "http://plants.example is not"],
      [{ host: "localhost" }, ""],
      [{ host: "127.0.0.2" }, ""],
    ] as const
  ) {
    const given = settings({ kv: store, ...flags });
    const { stderr } = await capture(() => check(given));
    const expected = warning === "" ? "" : `warning: ${warning}`;
    assert.equal(stderr.slice(0, expected.length), expected);
    assert.equal(stderr === "", warning === "");
  }
});

Deno.test({
  name:
    "check() reads the certificate and the tokens of files, and names each setting that has a value",
  ignore: isMissing("openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert, key } = await makeCertificate(directory, "plants");
    const tokens = directory.file("tokens");
    Deno.writeTextFileSync(tokens, SECRET);
    const values = {
      HOST: "127.0.0.1",
      PORT: "0",
      KV_PATH: directory.file("plants.db"),
      KV_CREATE: "yes",
      ACCESS_TOKEN_FILE: tokens,
      BASE_URL: "https://plants.example",
      TLS_CERT: cert,
      TLS_KEY: key,
      LOG_FORMAT: "json",
    };
    const { stdout } = await capture(() => check(settings({}, values)));
    for (
      const line of [
        `accepts 1 token in ${tokens}: 2bb80d53 (ACCESS_TOKEN_FILE)\n`,
        `serves https with the certificate in ${cert} (TLS_CERT)\n`,
        `its key is in ${key} (TLS_KEY)\n`,
      ]
    ) assert.ok(stdout.includes(line), stdout);
    const names = stdout.matchAll(/ \((\w+)\)\n/g);
    const named = Array.from(names, ([, name]) => name);
    assert.deepEqual(named, Object.keys(values));
    // The service has one kind of store, and tokens of one place.
    const others = ["ACCESS_TOKEN", "DENO_KV_ACCESS_TOKEN"];
    const variables = ALL_SETTINGS.map(({ variable }) => variable);
    assert.deepEqual(new Set([...named, ...others]), new Set(variables));
  },
});

Deno.test({
  name:
    "check refuses a key that the runtime cannot use, and names the certificate and the key",
  ignore: isMissing("openssl"),
  async fn() {
    using directory = new TemporaryDirectory();
    const { cert } = await makeCertificate(directory, "plants");
    const other = await makeCertificate(directory, "other");
    const short = directory.file("short.key");
    await runTool("openssl", ["genrsa", "-out", short, "1024"]);
    for (const TLS_KEY of [other.key, short, cert]) {
      const env = { TLS_KEY, KV_PATH: directory.file("plants.db") };
      const refused = await runProgram(["check", "--tls-cert", cert], { env });
      assertOneLine(
        refused,
        2,
        /: cannot serve https: .*: check --tls-cert, TLS_KEY; an RSA key needs at least 2048 bits, /,
      );
    }
    assert.ok(!directory.names().includes("plants.db"));
  },
});

Deno.test("check() leaves the configured port alone", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const flags = { port: `${port}`, kv: store };
  const { result, stdout } = await capture(() => check(settings(flags)));
  assert.equal(result, 0);
  assert.ok(stdout.includes(`listens on port ${port} (--port)`), stdout);
});

/** Returns what check() prints about the store. */
async function storeLine(kv: string): Promise<string> {
  const { stdout } = await capture(() => check(settings({ kv })));
  return /^(.*) \(--kv\)$/m.exec(stdout)?.[1] ?? "";
}

Deno.test("check() reports whether a start would create the store, and changes no file", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const news = `creates a new store in ${store}`;
  assert.equal(await storeLine(store), news);
  assert.deepEqual(directory.names(), []);
  Deno.writeTextFileSync(store, "");
  const empty = directory.contents();
  assert.equal(await storeLine(store), news);
  assert.deepEqual(directory.contents(), empty);
  await makeStore(store, newPlants([1n]));
  const before = directory.contents();
  assert.equal(await storeLine(store), `stores plants in ${store}`);
  assert.deepEqual(directory.contents(), before);
});

Deno.test("check refuses a path of the store as a start does, and changes no file", async () => {
  using directory = new TemporaryDirectory();
  const text = directory.file("text");
  Deno.writeTextFileSync(text, "no store");
  const before = directory.contents();
  const places = [
    "none/p.db",
    "text",
    "text/p.db",
    ".",
    "p.db-wal",
    `${"x".repeat(256)}`,
  ];
  for (const place of places) {
    const kv = directory.file(place);
    const start = await runProgram(["--port", "0", "--kv", kv]);
    assertOneLine(start, 2, /: cannot use /);
    assert.deepEqual(await runProgram(["check", "--kv", kv]), start);
  }
  assert.deepEqual(directory.contents(), before);
});

/**
 * A script that runs a program without the capability with which root ignores the
 * modes of files.
 */
const AS_USER = 'exec setpriv --bounding-set=-dac_override "$0" "$@"';

Deno.test({
  name: "check refuses a store in a read-only directory, as a start does",
  ignore: isMissing("setpriv"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    await makeStore(store, newPlants([1n]));
    const before = directory.contents();
    Deno.chmodSync(directory.path, 0o555);
    const run = (...args: readonly string[]) =>
      runProgram([...args, "--kv", store], { shell: AS_USER });
    const start = await run("--port", "0");
    assertOneLine(start, 2, /: it or its directory cannot be written: /);
    assert.deepEqual(await run("check"), start);
    assert.deepEqual(directory.contents(), before);
  },
});

Deno.test({
  name:
    "check accepts the store of a killed service in a read-only directory, as a start does",
  ignore: isMissing("setpriv"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    {
      await using killed = await Program.start(store);
      const create = killed.create('{"id":1,"name":"a"}');
      assert.equal(await replyStatus(create), 200);
      await killed.stop("SIGKILL");
    }
    // The log and its index are there already.
    Deno.chmodSync(directory.path, 0o555);
    const options = { shell: AS_USER };
    assertSucceeded(await runProgram(["check", "--kv", store], options));
    await using program = await Program.start(store, options);
    assert.equal(await replyStatus(program.create('{"id":2,"name":"a"}')), 200);
  },
});

Deno.test("check beside a running service replaces none of its files", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  assert.equal(await replyStatus(program.create('{"id":1,"name":"a"}')), 200);
  const files = () =>
    directory.names().map((name) => Deno.statSync(directory.file(name)).ino);
  const before = files();
  const { stdout } = await runProgram(["check", "--kv", store]);
  assert.ok(stdout.includes(`\nstores plants in ${store} (`), stdout);
  assert.deepEqual(files(), before);
  assert.equal(await replyStatus(program.create('{"id":2,"name":"b"}')), 200);
  await untilReady(program);
});

Deno.test("check() refuses a setting that a start would refuse, and prints nothing", async () => {
  using directory = new TemporaryDirectory();
  const KV_PATH = directory.file("plants.db");
  for (
    const [variables, message] of [
      [{ PORT: "80000" }, /^PORT: expected a whole number from 0 to 65535/],
      [
        { ACCESS_TOKEN: "" },
        /^ACCESS_TOKEN is empty: expected 1 to 100 tokens/,
      ],
      // RFC 5737 reserves the address for documentation.
      [{ HOST: "192.0.2.1" }, /^Cannot assign requested address /],
    ] as const
  ) {
    const refused = { message };
    const given = settings({}, { KV_PATH, ...variables });
    const printed = await capture(() => assert.rejects(check(given), refused));
    assert.equal(printed.stdout, "");
    assert.equal(printed.stderr, "");
  }
});
