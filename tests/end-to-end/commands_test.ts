import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { descriptionText } from "../../src/reference/openapi.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

/** Returns the outcome of a program that succeeds with some output. */
function printing(stdout: string) {
  return { status: 0, signal: null, stdout, stderr: "" };
}

Deno.test("--help shows every command on a separate line", async () => {
  const { status, stdout, stderr } = await runProgram(["--help"]);
  assert.equal(status, 0);
  assert.equal(stderr, "");
  const commands = ["serve", "export", "import FILE", "backup FILE"];
  for (const command of [...commands, "healthcheck", "openapi"]) {
    assert.match(stdout, new RegExp(`^  ${command} {2,}\\S`, "m"));
  }
});

Deno.test("--help shows every flag, its variable and its default, and examples", async () => {
  const { stdout } = await runProgram(["--help"]);
  for (
    const row of [
      /^ {2}--host .*HOST .*\(127\.0\.0\.1\)$/m,
      /^ {2}--port .*PORT .*\(8000\)$/m,
      /^ {2}--kv .*KV_PATH .*\(plants\.db\)$/m,
      /^ {2}TOKEN.* ACCESS_TOKEN /m,
      /^ {2}--token-file .*ACCESS_TOKEN_FILE /m,
      /^ {2}--base-url .*BASE_URL /m,
      /^ {2}--tls-cert .*TLS_CERT /m,
      /^ {2}--tls-key .*TLS_KEY /m,
      /^ {2}--log-format .*LOG_FORMAT .*\(text\)$/m,
      /^ {2}--help$/m,
      /^ {2}--version$/m,
      /DENO_KV_ACCESS_TOKEN=\S+ /,
      /Examples:\n {2}plant-store\n/,
    ]
  ) assert.match(stdout, row);
});

Deno.test("--help wins over everything else on the command line", async () => {
  const { stdout } = await runProgram(["--help"]);
  const others = [["-h"], ["import", "--help"], [
    "--frob",
    "--port",
    "x",
    "-h",
  ]];
  for (const args of others) {
    assert.deepEqual(await runProgram(args), printing(stdout));
  }
});

Deno.test("--version shows the version in deno.json", async () => {
  const version = printing(`plant-store ${config.version}\n`);
  assert.deepEqual(await runProgram(["--version"]), version);
});

const INVALID: readonly [args: readonly string[], message: string][] = [
  [["frob"], "unknown command frob: see --help"],
  [["constructor"], "unknown command constructor: see --help"],
  [["serve", "now"], "unexpected argument now: see --help"],
  [["export", "file"], "unexpected argument file: see --help"],
  [["import"], "import needs a FILE: see --help"],
  [["import", ""], "import needs a FILE: see --help"],
  [["import", "a", "b"], "unexpected argument b: see --help"],
  [["backup"], "backup needs a FILE: see --help"],
  [["backup", "a", "b"], "unexpected argument b: see --help"],
  [["healthcheck", "now"], "unexpected argument now: see --help"],
  [["openapi", "now"], "unexpected argument now: see --help"],
  [["export", "--fr\nob"], "unknown flag --fr ob: see --help"],
  [["export", "--frob"], "unknown flag --frob: see --help"],
  [["export", "--kv"], "--kv needs a value: see --help"],
  [["import", "none"], "cannot read none: no such file"],
  [["import", "."], "cannot read .: it is a directory"],
  [
    ["openapi", "--host", "[]"],
    '--host: expected an address such as 127.0.0.1, got "[]"',
  ],
];

for (const [args, message] of INVALID) {
  const command = JSON.stringify(args.join(" "));
  Deno.test(`${command} ends with status 2 and one line, and creates no file`, async () => {
    using directory = new TemporaryDirectory();
    const ended = await runProgram(args, { cwd: directory.path });
    assertOneLine(ended, 2, message);
    assert.deepEqual([...Deno.readDirSync(directory.path)], []);
  });
}

Deno.test("export of a store that does not exist fails with one line and creates none", async () => {
  using directory = new TemporaryDirectory();
  const ended = await runProgram(["export"], { cwd: directory.path });
  assertOneLine(
    ended,
    2,
    /cannot read \/.*\/plants\.db: no such file: name the store with --kv or KV_PATH$/m,
  );
  assert.deepEqual([...Deno.readDirSync(directory.path)], []);
});

Deno.test("export and import ignore the settings that only the service needs", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const env = {
    ACCESS_TOKEN: "",
    ACCESS_TOKEN_FILE: "/none",
    TLS_CERT: "/none",
    TLS_KEY: "/none",
    PORT: "x",
  };
  for (const args of [["import", "/dev/null"], ["export"]]) {
    const ended = await runProgram([...args, "--kv", store], { env });
    assert.equal(ended.status, 0, ended.stderr);
  }
});

Deno.test("openapi writes the description for the base URL, or else for the configured address", async () => {
  const url = "https://plants.example/api";
  assert.deepEqual(
    await runProgram(["openapi", "--base-url", url]),
    printing(descriptionText(url)),
  );
  assert.deepEqual(
    await runProgram(["openapi", "--port", "9000"]),
    printing(descriptionText("http://127.0.0.1:9000")),
  );
  assert.deepEqual(
    await runProgram(["openapi"], { env: { HOST: "0.0.0.0" } }),
    printing(descriptionText("http://localhost:8000")),
  );
  assert.deepEqual(
    await runProgram(["openapi"], { env: { HOST: "::1", TLS_CERT: "/none" } }),
    printing(descriptionText("https://[::1]:8000")),
  );
});

Deno.test({
  name: "a command fails with one line if stdout cannot be written",
  ignore: Deno.build.os !== "linux",
  async fn() {
    for (const args of [["--help"], ["--version"], ["openapi"]]) {
      const ended = await runProgram(args, {
        shell: '"$0" "$@" > /dev/full',
      });
      assertOneLine(ended, 1, /cannot write to stdout: .*No space left/);
    }
  },
});

Deno.test({
  name: "a command keeps its exit status if stderr cannot be written",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const { status, stderr } = await runProgram(["--frob"], {
      shell: '"$0" "$@" 2> /dev/full',
    });
    assert.deepEqual([status, stderr], [2, ""]);
  },
});
