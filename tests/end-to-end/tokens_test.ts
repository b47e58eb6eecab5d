import assert from "node:assert/strict";
import { API_ERRORS } from "../../src/api_errors.ts";
import { occurrences } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { errorOf, Program, statusOf } from "../support/program.ts";
import { test, type TestPlace } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";

const PLANT = { id: 7, name: "Monstera" };

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

/** Starts a service with a file of one token; returns both. */
async function startWithFile({ directory, start }: TestPlace) {
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, "first-token\n");
  const program = await start(["--token-file", tokens], { ownToken: true });
  assert.equal(await isAccepted(program, "first-token"), true);
  return { program, tokens };
}

test("serve reads its tokens from a FIFO at the start", async ({ directory, start }) => {
  const fifo = directory.file("fifo");
  await runTool("mkfifo", [fifo]);
  const starting = start(["--token-file", fifo], { ownToken: true });
  // Opening a FIFO to write waits for its reader, who needs several reads.
  const text = `first\n${"\n".repeat(500_000)}second\n`;
  const writing = Deno.writeTextFile(fifo, text, { create: false });
  const [started] = await Promise.all([starting, writing]);
  await using program = started;
  assert.equal(await isAccepted(program, "second"), true);
  assert.match(await program.reload(), /fifo: it is not a regular file\n$/);
  assert.equal(await isAccepted(program, "first"), true);
});

needs("bash").test(
  "serve reads its tokens from a process substitution at the start",
  async ({ start }) => {
    await using program = await start([], {
      ownToken: true,
      shell: `exec bash -c '"$0" "$@" --token-file <(echo a-token)' "$0" "$@"`,
    });
    assert.equal(await isAccepted(program, "a-token"), true);
  },
);

test("SIGHUP replaces the tokens with those in the file", async (place) => {
  const { program, tokens } = await startWithFile(place);
  await using _program = program;

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
});

test("SIGHUP changes no token if the file has become invalid, and the service continues", async (place) => {
  const { program, tokens } = await startWithFile(place);
  await using _program = program;
  const { length } = program.stderr;

  replaceTokens(tokens, "second-token\nthird token\n");
  const reloading = program.reload();
  assert.equal(await statusOf(program.create(PLANT, "first-token")), 200);
  const line = await reloading;
  assert.match(
    line,
    /Z error: the tokens did not change: .*\/tokens: token 2 has a character /,
  );
  assert.doesNotMatch(line, /second|third/);
  assert.equal(await isAccepted(program, "first-token"), true);
  assert.equal(await isAccepted(program, "second-token"), false);
  assert.equal(occurrences(program.stderr.slice(length), /\n/g), 1);

  replaceTokens(tokens, "second-token\n");
  assert.match(await program.reload(), /Z info: reloaded 1 token from /);
  assert.equal(await isAccepted(program, "second-token"), true);
  assert.equal(await isAccepted(program, "first-token"), false);
});
