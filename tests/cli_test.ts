import assert from "node:assert/strict";
import { main } from "../src/cli.ts";
import { ID_MAX, ID_MIN, ID_RANGE } from "../src/limits.ts";
import { VERSION } from "../src/version.ts";
import { capture } from "./support/console.ts";
import { makeStore, newPlants, toLines } from "./support/plants.ts";
import { replaced } from "./support/replaced.ts";
import { TemporaryDirectory } from "./support/temporary.ts";

/** Runs the program in this process, with these variables alone. */
async function run(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
) {
  // The environment of the tests may have variables of the program.
  using _ = replaced(Deno.env, "get", (name) => variables[name]);
  return await capture(() => main(args));
}

Deno.test("main() prints the commands, the settings and the exit statuses with --help, whatever the command", async () => {
  const printed = await run(["--help"]);
  const { result, stdout, stderr } = printed;
  assert.deepEqual([result, stderr], [0, ""]);
  for (
    const line of [
      /^ {2}serve +run the service; the default$/m,
      /^ {2}export \[ID\.\.\.\] +write these plants/m,
      /^ {2}--host ADDRESS +HOST\n {6}address .* \(127\.0\.0\.1\)$/m,
      /^ {24,}ACCESS_TOKEN\n {6}accepted tokens, /m,
      /^ {2}141 /m,
    ]
  ) assert.match(stdout, line);
  for (
    const args of [["--port", "x", "-h"], ["help"], ["import", "--help"]]
  ) assert.deepEqual(await run(args), printed);
  // The width of a terminal.
  for (const line of stdout.split("\n")) assert.ok(line.length <= 80, line);
});

Deno.test("main() prints its version and Deno's however a person asks for it", async () => {
  const stdout = `plant-store ${VERSION} (deno ${Deno.version.deno})\n`;
  for (const arg of ["--version", "-v", "-V", "version"]) {
    assert.deepEqual(await run([arg]), { result: 0, stdout, stderr: "" });
  }
});

Deno.test("main() logs an unexpected error with its stack and returns 1", async () => {
  // Any function of the runtime, since the program has no such error of its own.
  using _ = replaced(URL, "parse", () => {
    throw new RangeError("a bug");
  });
  const { result, stderr } = await run(["openapi", "--base-url", "http://a"]);
  assert.equal(result, 1);
  const log = /^\S+Z error: internal error \S{36}\nRangeError: a bug\n +at /;
  assert.match(stderr, log);
});

Deno.test("main() refuses an invalid command line with one line and status 2, and stores nothing", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const file = directory.file("in");
  Deno.writeTextFileSync(file, '{"id":1,"name":"Monstera"}\n');
  const notUtf8 = "expected arguments in UTF-8";
  const anId = `expected an id ${ID_RANGE}, got`;
  for (
    const [args, message] of [
      [["--frob"], "Unknown option '--frob': see --help"],
      [["--frob=a. b"], "Unknown option '--frob': see --help"],
      [
        ["--help=1"],
        "Option '-h, --help' does not take an argument: see --help",
      ],
      [["--kv"], "Option '--kv <value>' argument missing: see --help"],
      [
        ["--kv", "--port", "1"],
        "Option '--kv' argument is ambiguous: see --help",
      ],
      [
        ["remove", "-1"],
        "Unknown option '-1': write -- before negative ids: see --help",
      ],
      [["\x1b[31m\nred"], "unknown command \\u{1b}[31m red: see --help"],
      [["serve", "now"], "serve takes no operands: see --help"],
      [["import"], "import takes FILE: see --help"],
      [["import", file, file], "import takes FILE: see --help"],
      [["import", "--", "-h"], /^plant-store: cannot read -h: No such file /],
      [["--help", "--frob"], /^plant-store: Unknown option '--frob'/],
      [["remove"], "remove takes ID...: see --help"],
      [["replace"], "replace takes PLANT: see --help"],
      [["replace", "{}", "{}"], "replace takes PLANT: see --help"],
      [["remove", "1", "one"], `${anId} "one"`],
      [["export", "1.0"], `${anId} "1.0"`],
      [["export", ""], `${anId} ""`],
      [["export", `${ID_MAX + 1n}`], `${anId} "${ID_MAX + 1n}"`],
      [["export", "--", `${ID_MIN - 1n}`], `${anId} "${ID_MIN - 1n}"`],
      [["import", file, "--kv", directory.file("\ufffd.db")], notUtf8],
      [["import", `${file}\ufffd`], notUtf8],
      [
        ["openapi", "--port", "0"],
        "--port: expected the port of the service, got 0",
      ],
      [
        ["healthcheck", "--port=0"],
        "--port: expected the port of the service, got 0",
      ],
      [
        ["export"],
        `cannot use ${store} (no store): no such file: check the path in KV_PATH, and that its disk is mounted`,
      ],
    ] as const
  ) {
    const printed = await run(args, { KV_PATH: store });
    const { result, stdout, stderr } = printed;
    const row = args.join(" ");
    assert.deepEqual([result, stdout], [2, ""], row);
    if (typeof message !== "string") assert.match(stderr, message, row);
    else assert.equal(stderr, `plant-store: ${message}`, row);
    assert.deepEqual(directory.names(), ["in"], row);
  }
});

Deno.test("main() passes on ids exactly, and negative ones after --", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const plants = newPlants([ID_MIN, -1n, 7n, ID_MAX]);
  await makeStore(store, plants);
  const ids = [`${ID_MAX}`, "007", "--", "-1", `${ID_MIN}`];
  const { result, stdout } = await run(["export", "--kv", store, ...ids]);
  assert.deepEqual([result, stdout], [0, toLines(plants.toReversed())]);
});

Deno.test("main() reports a failed start in the format of the log, and other failures as text", async () => {
  const text = /^plant-store: [^\n]+$/;
  const json =
    /^{"time":"\S+Z","level":"error","event":"failed","message":".+"}$/;
  for (
    const [args, LOG_FORMAT, expected] of [
      [["serve", "--port", "x"], "json", json],
      [["serve", "--port", "x"], "journal", /^<3>--port: expected a whole /],
      [["serve", "now"], "json", text],
      [["frob", "--log-format", "json"], "", text],
      [["frob"], "journal", text],
      [["serve", "now"], "journal", text],
      [["export", "one"], "journal", text],
      // A value with the name of a command.
      [["--kv", "check", "--port", "x"], "json", json],
      [["openapi", "--port", "x"], "json", text],
      [["serve", "--port", "x"], "xml", text],
      [["serve", "--frob"], "journal", text],
      [["--frob", "--log-format", "json"], "", text],
      [["--kv"], "json", text],
    ] as const
  ) {
    const { result, stderr } = await run(args, { LOG_FORMAT });
    assert.match(stderr, expected, `${args} ${LOG_FORMAT}`);
    assert.equal(result, 2);
  }
});

Deno.test("main() writes the API description with the URL of the configured service", async () => {
  for (
    const [args, url] of [
      [[], "http://127.0.0.1:8000"],
      [["--host", "0.0.0.0", "--port", "9000"], "http://localhost:9000"],
      [["--host", "::"], "http://localhost:8000"],
      [["--host", "::1", "--tls-cert", "/none"], "https://[::1]:8000"],
      [
        ["--port=0", "--base-url=https://plants.test/a"],
        "https://plants.test/a",
      ],
    ] as const
  ) {
    const { result, stdout } = await run(["openapi", ...args]);
    assert.equal(result, 0);
    assert.deepEqual(JSON.parse(stdout).servers, [{ url }]);
  }
});
