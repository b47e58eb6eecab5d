import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { ALL_SETTINGS } from "../../src/config/settings.ts";
import { descriptionText } from "../../src/reference/openapi.ts";
import { KV_ENV } from "../support/kv_server.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { needs } from "../support/needs.ts";
import { test } from "../support/tests.ts";

/** Returns the outcome of a program that succeeds with some output. */
function printing(stdout: string) {
  return { status: 0, signal: null, stdout, stderr: "" };
}

test("--help has a line for each command, flag and variable, and wins over everything else on the command line", async () => {
  const { status, stdout, stderr } = await runProgram(["--help"]);
  assert.deepEqual([status, stderr], [0, ""]);
  for (
    const start of [
      ...["serve ", "export [ID...] ", "import FILE ", "remove ID... "],
      ...["backup FILE ", "restore FILE ", "check ", "healthcheck "],
      ...["openapi ", "--after ID ", "--help\n", "--version\n"],
      ...ALL_SETTINGS.map(({ flag = "", placeholder }) =>
        `${flag} ${placeholder} `.trimStart()
      ),
    ]
  ) assert.ok(stdout.includes(`\n  ${start}`), start);
  for (const { variable } of ALL_SETTINGS) {
    assert.ok(stdout.includes(` ${variable} `), variable);
  }
  for (
    const args of [["--frob", "--port", "x", "-h"], ["help", "import", "-x"]]
  ) assert.deepEqual(await runProgram(args), printing(stdout));
});

test("--version shows the version in deno.json, and that of Deno", async () => {
  const { stdout } = await runProgram(["--version"]);
  const [, version, deno = ""] =
    /^plant-store (\S+) \(deno (\S+)\)\n$/.exec(stdout) ?? [];
  assert.equal(version, config.version);
  assert.match(deno, /^2\.\d+\.\d+/);
});

/** `cli_test.ts` has what `main()` refuses by the command line alone. */
const REFUSED: readonly [
  args: readonly string[],
  message: string | RegExp,
][] = [
  [["--\x1b[31m\nred"], "unknown flag --\\u{1b}[31m red: see --help"],
  [["import", "/none"], "cannot read /none: no such file"],
  [
    ["backup", "copy.db"],
    /cannot read \/.*\/plants\.db: no such file: name the store with --kv$/m,
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

for (const [args, message] of REFUSED) {
  const command = JSON.stringify(args.join(" "));
  test(`${command} ends with status 2 and one line, and creates no file`, async ({ directory }) => {
    const ended = await runProgram(args, { cwd: directory.path, env: KV_ENV });
    assertOneLine(ended, 2, message);
    assert.deepEqual(directory.names(), []);
  });
}

test("openapi writes the description for the configured address", async () => {
  assert.deepEqual(
    await runProgram(["openapi"], { env: { HOST: "::1", TLS_CERT: "/none" } }),
    printing(descriptionText("https://[::1]:8000")),
  );
});

needs("Linux").test(
  "a command fails with one line if stdout cannot be written",
  async () => {
    const ended = await runProgram(["--help"], {
      shell: '"$0" "$@" > /dev/full',
    });
    assertOneLine(ended, 1, /cannot write to stdout: the disk is full/);
  },
);

needs("Linux").test(
  "a command keeps its exit status if stderr cannot be written",
  async () => {
    const { status, stderr } = await runProgram(["--frob"], {
      shell: '"$0" "$@" 2> /dev/full',
    });
    assert.deepEqual([status, stderr], [2, ""]);
  },
);
