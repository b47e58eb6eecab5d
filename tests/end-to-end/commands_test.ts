import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { ALL_SETTINGS } from "../../src/config/settings.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import { KV_ENV } from "../support/kv_server.ts";
import {
  assertOneLine,
  assertSucceeded,
  runProgram,
} from "../support/program.ts";
import { onLinux, test } from "../support/tests.ts";
import { backUp, createStore, exportLines } from "../support/transfer.ts";

/** Returns the outcome of a program that succeeds with some output. */
function printing(stdout: string) {
  return { status: 0, signal: null, stdout, stderr: "" };
}

test("--help shows every command and every flag on a separate line, and examples", async () => {
  const { status, stdout, stderr } = await runProgram(["--help"]);
  assert.deepEqual([status, stderr], [0, ""]);
  for (
    const row of [
      ...[/^ {2}serve {2,}\S/m, /^ {2}export \[ID\.\.\.\] +\S/m],
      ...[/^ {2}import FILE {2,}\S/m, /^ {2}restore FILE {2,}\S/m],
      ...[/^ {2}backup FILE {2,}\S/m, /^ {2}healthcheck {2,}\S/m],
      /^ {2}openapi {2,}\S/m,
      /^ {2}--host ADDRESS {2,}HOST {2,}\S.* \(127\.0\.0\.1\)$/m,
      /^ {2}TOKEN\[,TOKEN\] {2,}ACCESS_TOKEN {2,}accepted tokens; without any, one is generated for the run$/m,
      /^ {2}--token-file FILE {2,}ACCESS_TOKEN_FILE {2,}\S/m,
      /^ {2}--help$/m,
      /^ {2}--version$/m,
      /\n\nExamples:\n {2}plant-store\n/,
    ]
  ) assert.match(stdout, row);
  for (const { flag, variable } of ALL_SETTINGS) {
    const row = flag === undefined ? ` ${variable} ` : `\n  ${flag} `;
    assert.ok(stdout.includes(row), row);
  }
});

test("--help, -h or the command help wins over everything else on the command line", async () => {
  const { stdout } = await runProgram(["--help"]);
  for (
    const args of [["--frob", "--port", "x", "-h"], ["help", "import", "-x"]]
  ) assert.deepEqual(await runProgram(args), printing(stdout));
});

test("--version shows the version in deno.json, and that of Deno", async () => {
  const { status, stdout } = await runProgram(["--version"]);
  assert.equal(status, 0);
  const [, version, deno] =
    /^plant-store (\S+) \(deno (\S+)\)\n$/.exec(stdout) ??
      [];
  assert.equal(version, config.version);
  assert.match(deno ?? "", /^2\.\d+\.\d+/);
});

const NO_STORE =
  /cannot (read|replace) \/.*\/plants\.db: no such file: name the store with --kv or KV_PATH$/m;

const INVALID: readonly [
  args: readonly string[],
  message: string | RegExp,
][] = [
  [["frob"], "unknown command frob: see --help"],
  [["import", "help", "--frob"], "unknown flag --frob: see --help"],
  [["export", "-x"], "unknown flag -x: see --help"],
  [["serve", "now"], "unexpected argument now: see --help"],
  [["import", ""], "import needs a FILE: see --help"],
  [["import", "/none"], "cannot read /none: no such file"],
  [["export"], NO_STORE],
  [["backup", "copy.db"], NO_STORE],
  [["restore", "copy.db"], NO_STORE],
  [["--\x1b[31m\nred"], "unknown flag --\\u{1b}[31m red: see --help"],
  [
    ["--log-format", "JSON"],
    '--log-format: expected text, json or journal, got "JSON"',
  ],
  [["import", "a", "b"], "unexpected argument b: see --help"],
  [
    ["openapi", "--host", "[]"],
    '--host: expected an address such as 127.0.0.1, got "[]"',
  ],
  [
    ["backup", "copy.db", "--kv", "https://kv.example"],
    "https://kv.example/ is a KV Connect server, which has backups of its " +
    "own: write its plants to a file with export",
  ],
  [
    ["restore", "/copy.db", "--kv", "https://kv.example"],
    "https://kv.example/ is a KV Connect server: export /copy.db, and import " +
    "its plants there",
  ],
];

for (const [args, message] of INVALID) {
  const command = JSON.stringify(args.join(" "));
  test(`${command} ends with status 2 and one line, and creates no file`, async ({ directory }) => {
    const ended = await runProgram(args, { cwd: directory.path, env: KV_ENV });
    assertOneLine(ended, 2, message);
    assert.deepEqual(directory.names(), []);
  });
}

test("restore replaces the store of the default path, and creates one that KV_PATH names", async ({ directory, store }) => {
  const lines = await createStore(store, 3);
  assertSucceeded(await backUp(store, directory.file("copy.db")));
  const env = { KV_PATH: directory.file("new.db") };
  for (const options of [{}, { env }]) {
    const cwd = directory.path;
    const ended = await runProgram(["restore", "copy.db"], { cwd, ...options });
    assertSucceeded(ended);
  }
  assert.deepEqual(await exportLines(env.KV_PATH), lines);
});

test("export and import ignore the settings that only the service needs", async ({ store }) => {
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

test("openapi writes the description for the configured address", async () => {
  assert.deepEqual(
    await runProgram(["openapi"], { env: { HOST: "::1", TLS_CERT: "/none" } }),
    printing(descriptionText("https://[::1]:8000")),
  );
});

onLinux.test("a command fails with one line if stdout cannot be written", async () => {
  const ended = await runProgram(["--help"], {
    shell: '"$0" "$@" > /dev/full',
  });
  assertOneLine(ended, 1, /cannot write to stdout: the disk is full/);
});

onLinux.test("a command keeps its exit status if stderr cannot be written", async () => {
  const { status, stderr } = await runProgram(["--frob"], {
    shell: '"$0" "$@" 2> /dev/full',
  });
  assert.deepEqual([status, stderr], [2, ""]);
});
