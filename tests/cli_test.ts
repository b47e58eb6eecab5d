import assert from "node:assert/strict";
import config from "../deno.json" with { type: "json" };
import { main, parseArguments } from "../src/cli.ts";
import { ALL_SETTINGS } from "../src/config/settings.ts";
import { capture } from "./support/console.ts";
import { HANDBOOK, read } from "./support/readme.ts";
import { replaced } from "./support/replaced.ts";

function parse(...args: readonly string[]) {
  const { words, flags, problem } = parseArguments(args);
  return { words, flags: Object.fromEntries(flags), problem };
}

Deno.test("parseArguments() splits words and flags in any order", () => {
  const expected = {
    words: ["import", "-"],
    flags: { "--port": "1", "--kv": "a=b" },
    problem: undefined,
  };
  const orders = [
    ["import", "-", "--port", "1", "--kv", "a=b"],
    ["--port=1", "import", "--kv=a=b", "-"],
    ["--kv=a=b", "--port", "1", "import", "-"],
  ];
  for (const args of orders) assert.deepEqual(parse(...args), expected);
  assert.deepEqual(parse("a=b").words, ["a=b"]);
  const ids = ["export", "-1", "2", "-9223372036854775808"];
  assert.deepEqual(parse(...ids, "--kv", "-3").words, ids);
});

Deno.test("parseArguments() accepts any value after =, and any but a flag after a space", () => {
  for (
    const [args, value] of [
      [["--kv="], ""],
      [["--kv", ""], ""],
      [["--kv=--port"], "--port"],
      [["--kv", "-1"], "-1"],
      [["--kv", "-"], "-"],
    ] as const
  ) {
    const flags = { "--kv": value };
    assert.deepEqual(parse(...args), { words: [], flags, problem: undefined });
  }
});

Deno.test("parseArguments() refuses an unknown or a repeated flag, and one without a value", () => {
  for (
    const [args, problem] of [
      [["--frob=1"], "unknown flag --frob: see --help"],
      [["-p", "1"], "unknown flag -p: see --help"],
      [["--"], "unknown flag --: see --help"],
      [["--port", "1", "--kv"], "--kv needs a value: see --help"],
      [["--kv", "--port", "1"], "--kv needs a value, got the flag --port"],
      [["--port=", "--port=1"], "--port is given twice: give it once"],
      [["--frob", "--kv"], "unknown flag --frob: see --help"],
      [["-p", "--port=", "--port=1"], "unknown flag -p: see --help"],
    ] as const
  ) assert.equal(parse(...args).problem, problem);
});

Deno.test("parseArguments() reads the other flags if one is invalid", () => {
  const json = { "--log-format": "json" };
  for (const invalid of ["--frob", "--kv"]) {
    assert.deepEqual(parse(invalid, "--log-format", "json").flags, json);
    assert.deepEqual(parse("--log-format", "json", invalid).flags, json);
  }
  const twice = parse("--log-format=json", "--log-format=text");
  assert.deepEqual(twice.flags, json);
});

Deno.test("main() prints a line for each command, flag and variable, with --help, whatever else is on the command line", async () => {
  const printed = await capture(() => main(["--help"]));
  const { result, stdout, stderr } = printed;
  assert.deepEqual([result, stderr], [0, ""]);
  for (
    const start of [
      ...["serve ", "export [ID...] ", "import FILE ", "remove ID... "],
      ...["backup FILE ", "restore FILE ", "check ", "healthcheck "],
      ...["openapi ", "--help\n", "--version\n"],
      ...ALL_SETTINGS.map(({ flag, placeholder }) =>
        flag === undefined ? "" : `${flag} ${placeholder} `
      ),
    ]
  ) assert.ok(stdout.includes(`\n  ${start}`), start);
  for (const { variable } of ALL_SETTINGS) {
    assert.ok(stdout.includes(` ${variable} `), variable);
  }
  for (
    const args of [["--frob", "--port", "x", "-h"], ["help", "import", "-x"]]
  ) {
    assert.deepEqual(await capture(() => main(args)), printed);
  }
});

Deno.test("every command of --help is in the handbook or the README", async () => {
  const { stdout } = await capture(() => main(["--help"]));
  const [, , list = ""] = stdout.split("\n\n");
  const [first, ...commands] = Array.from(
    list.matchAll(/^ {2}(\w+)/gm),
    ([, name = ""]) => name,
  );
  // The default, whose name nobody needs to write.
  assert.equal(first, "serve");
  const documents = read(HANDBOOK) + read("README.md");
  for (const command of commands) {
    const named = new RegExp(`\\b(plant-store|plants) ${command}\\b`);
    assert.match(documents, named, `no document names ${command}`);
  }
});

Deno.test("main() prints the version in deno.json, and that of Deno, with --version", async () => {
  const { stdout } = await capture(() => main(["--version"]));
  const [, version, deno = ""] =
    /^plant-store (\S+) \(deno (\S+)\)\n$/.exec(stdout) ?? [];
  assert.equal(version, config.version);
  assert.match(deno, /^2\.\d+\.\d+/);
});

Deno.test("main() logs an unexpected error with its stack and returns 1", async () => {
  using _ = replaced(URL, "parse", () => {
    throw new RangeError("a bug");
  });
  const args = ["openapi", "--base-url", "http://a"];
  const { result, stderr } = await capture(() => main(args));
  assert.equal(result, 1);
  const log = /^\S+Z error: internal error \S{36}\nRangeError: a bug\n +at /;
  assert.match(stderr, log);
});

Deno.test("main() refuses an unknown flag, and missing and unexpected operands, with status 2", async () => {
  for (
    const [args, message] of [
      [["--\x1b[31m\nred"], "unknown flag --\\u{1b}[31m red: see --help"],
      [["frob"], "unknown command frob: see --help"],
      [["serve", "now"], "unexpected argument now: see --help"],
      [["import"], "import needs FILE: see --help"],
      [["import", ""], "import needs FILE: see --help"],
      [["import", "a", "b"], "unexpected argument b: see --help"],
      [["remove"], "remove needs ID...: see --help"],
      [["remove", ""], "remove needs ID...: see --help"],
      [["restore", "/backup.db"], "name the new store with --kv or KV_PATH"],
    ] as const
  ) {
    const printed = await capture(() => main(args));
    const stderr = `plant-store: ${message}`;
    assert.deepEqual(printed, { result: 2, stdout: "", stderr });
  }
});
