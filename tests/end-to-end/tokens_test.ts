import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/errors.ts";
import { occurrences } from "../support/load.ts";
import { errorOf, has, Program, statusOf, TOKEN } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const PLANT = { id: 7, name: "Monstera" };

const IS_WINDOWS = Deno.build.os === "windows";
const HAS_BASH = await has("bash", "--version");

/** Writes tokens as a secret store does: to a new file, then renamed. */
function replaceTokens(file: string, text: string): void {
  Deno.writeTextFileSync(`${file}.new`, text);
  Deno.renameSync(`${file}.new`, file);
}

/** Whether a token is accepted, by a request that stores nothing. */
async function isAccepted(program: Program, token: string): Promise<boolean> {
  const [, error] = await errorOf(program.create("{}", token));
  if (error === API_ERRORS.notANewPlant.error) return true;
  assert.equal(error, API_ERRORS.tokenNotAccepted.error);
  return false;
}

/** Starts a service with a token file that contains one token. */
async function startWithFile(
  directory: TemporaryDirectory,
  tokens: string,
): Promise<Program> {
  Deno.writeTextFileSync(tokens, "first-token\n");
  const program = await Program.start(["--kv", directory.file("plants.db")], {
    env: { ACCESS_TOKEN_FILE: tokens },
  });
  assert.equal(await isAccepted(program, "first-token"), true);
  return program;
}

Deno.test("serve accepts every token in ACCESS_TOKEN", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")], {
    env: { ACCESS_TOKEN: "first, second" },
  });
  assert.equal(await isAccepted(program, "first"), true);
  assert.equal(await isAccepted(program, "second"), true);
  assert.equal(await isAccepted(program, TOKEN), false);
});

Deno.test({
  name: "serve reads its tokens from a FIFO at the start",
  ignore: IS_WINDOWS,
  async fn() {
    using directory = new TemporaryDirectory();
    const fifo = directory.file("fifo");
    await runTool("mkfifo", [fifo]);
    const starting = Program.start(
      ["--kv", directory.file("plants.db"), "--token-file", fifo],
      { ownToken: true },
    );
    // Opening a FIFO to write waits for its reader, who needs several reads.
    const text = `first\n${"\n".repeat(500_000)}second\n`;
    const writing = Deno.writeTextFile(fifo, text, { create: false });
    const [started] = await Promise.all([starting, writing]);
    await using program = started;
    assert.equal(await isAccepted(program, "second"), true);
    assert.match(await program.reload(), /fifo: it is not a regular file\n$/);
    assert.equal(await isAccepted(program, "first"), true);
  },
});

Deno.test({
  name: "serve reads its tokens from a process substitution at the start",
  ignore: !HAS_BASH,
  async fn() {
    using directory = new TemporaryDirectory();
    await using program = await Program.start(
      ["--kv", directory.file("plants.db")],
      {
        ownToken: true,
        shell:
          `exec bash -c '"$0" "$@" --token-file <(echo a-token)' "$0" "$@"`,
      },
    );
    assert.equal(await isAccepted(program, "a-token"), true);
  },
});

Deno.test({
  name: "SIGHUP replaces the tokens with those in the file",
  ignore: IS_WINDOWS,
  async fn() {
    using directory = new TemporaryDirectory();
    const tokens = directory.file("tokens");
    await using program = await startWithFile(directory, tokens);

    replaceTokens(tokens, "first-token\nsecond-token\n");
    assert.equal(await isAccepted(program, "second-token"), false);
    assert.match(
      await program.reload(),
      /Z info: reloaded 2 tokens from \/.*\/tokens\n$/,
    );
    assert.equal(await isAccepted(program, "first-token"), true);
    assert.equal(await isAccepted(program, "second-token"), true);

    replaceTokens(tokens, "second-token\n");
    assert.equal(await isAccepted(program, "first-token"), true);
    await program.reload();
    assert.equal(await statusOf(program.create(PLANT, "first-token")), 401);
    assert.equal(await statusOf(program.create(PLANT, "second-token")), 200);
    assert.doesNotMatch(program.stderr, /(first|second)-token/);
  },
});

/** Ways in which a token file becomes invalid, and what the log says. */
const INVALID: readonly [
  what: string,
  change: (file: string) => void | Promise<unknown>,
  problem: RegExp,
][] = [
  [
    "has an invalid line",
    (file) => replaceTokens(file, "second-token\nthird token\n"),
    /: token 2 has a character /,
  ],
  ["is deleted", (file) => Deno.removeSync(file), /: no such file$/m],
  [
    "has become a FIFO",
    (file) => {
      Deno.removeSync(file);
      return runTool("mkfifo", [file]);
    },
    /: it is not a regular file$/m,
  ],
];

for (const [what, change, problem] of INVALID) {
  Deno.test({
    name:
      `SIGHUP changes no token if the file ${what}, and the service continues`,
    ignore: IS_WINDOWS,
    async fn() {
      using directory = new TemporaryDirectory();
      const tokens = directory.file("tokens");
      await using program = await startWithFile(directory, tokens);
      const { length } = program.stderr;

      await change(tokens);
      const reloading = program.reload();
      assert.equal(await statusOf(program.create(PLANT, "first-token")), 200);
      const line = await reloading;
      assert.match(line, /Z error: the tokens did not change: .*\/tokens: /);
      assert.match(line, problem);
      assert.doesNotMatch(line, /second|third|té/);
      assert.equal(await isAccepted(program, "first-token"), true);
      assert.equal(await isAccepted(program, "second-token"), false);
      assert.equal(occurrences(program.stderr.slice(length), /\n/g), 1);

      await Deno.remove(tokens).catch(() => {});
      replaceTokens(tokens, "second-token\n");
      assert.match(await program.reload(), /Z info: reloaded 1 token from /);
      assert.equal(await isAccepted(program, "second-token"), true);
      assert.equal(await isAccepted(program, "first-token"), false);
    },
  });
}
