import assert from "node:assert/strict";
import { descriptionText } from "../../src/reference/openapi.ts";
import { KV_ENV } from "../support/kv_server.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { needs } from "../support/needs.ts";
import { test } from "../support/tests.ts";

/** Returns the outcome of a program that succeeds with some output. */
function printing(stdout: string) {
  return { status: 0, signal: null, stdout, stderr: "" };
}

/** `cli_test.ts` has what `main()` refuses by the command line alone. */
const REFUSED: readonly [
  args: readonly string[],
  message: string | RegExp,
][] = [
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
