/** A KV Connect server that cannot be used, and what its errors may contain. */
import assert from "node:assert/strict";
import { API_ERRORS, MAY_BE_STORED } from "../../src/api_errors.ts";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { isStored, PLANT, send } from "../support/load.ts";
import { assertOneLine, Program, runProgram } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { writeLines } from "../support/transfer.ts";

const TOKEN = KV_ENV.DENO_KV_ACCESS_TOKEN;

/** An error text with the token, control characters and 100 kB. */
const HOSTILE = `wrong token: ${TOKEN} \x1b[31mred\x1b]0;title\x07\x00\r\n` +
  `error: forged\u2028line\u202e\n${"x".repeat(100_000)}${TOKEN}`;

/** Longest line about a server: its text is cut, and escapes are longer. */
const LINE_CHARS_MAX = 600;

/** Whatever a terminal may interpret, or take for another line. */
// deno-lint-ignore no-control-regex
const UNPRINTABLE = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]/;

/** Asserts that a text of the server is masked, escaped and truncated. */
function assertHarmless(line: string): void {
  assert.match(line, /wrong token: \[token\] \\u\{1b\}\[31mred/);
  assert.ok(!line.includes(TOKEN), line);
  assert.doesNotMatch(line, UNPRINTABLE);
  assert.ok(line.length < LINE_CHARS_MAX, `${line.length} characters`);
}

const ADVICE = "check its address, and its token in DENO_KV_ACCESS_TOKEN\n";

test("an error text of a KV Connect server about its metadata or its data is one line, masked, escaped and truncated", async ({ directory }) => {
  const file = writeLines(directory.file("in"), ['{"id":1,"name":"one"}']);
  for (
    const [kind, ...args] of [
      ["metadata", "serve", "--port", "0"],
      ["data", "export"],
      ["data", "import", file],
    ] as const
  ) {
    await using server = new FakeKvServer();
    server[kind] = () => new Response(HOSTILE, { status: 403 });
    const ended = await runProgram([...args, "--kv", server.url], {
      env: KV_ENV,
    });
    assertOneLine(ended, 1, /^plant-store: cannot (store|read) /);
    assertHarmless(ended.stderr);
    assert.ok(ended.stderr.endsWith(ADVICE), ended.stderr);
  }
});

test("an error text of a KV Connect server is harmless in the log, and no create gets it", async () => {
  await using server = new FakeKvServer();
  await using program = await Program.start(["--kv", server.url], {
    env: KV_ENV,
  });
  assert.ok(isStored(await send(program, { id: 1n, plant: PLANT })));
  server.data = () => new Response(HOSTILE, { status: 403 });
  const response = await program.create({ id: 2, name: "two" });
  assert.equal(response.status, 503);
  const { error, message } = API_ERRORS.storeFailed;
  assert.deepEqual(await response.json(), {
    error,
    message: message(MAY_BE_STORED),
  });

  const [line] = await program.printed(/^.*the store fails: .*$/m);
  assertHarmless(line);
  assert.ok(line.includes(`the store fails: ${server.url}/: `), line);
  server.data = () => undefined;
  await program.printed(/the store has recovered/);
  const { stderr, status } = await program.stop();
  assert.equal(status, 0);
  assert.ok(!stderr.includes(TOKEN) && !stderr.includes("forged\n"), stderr);
  assert.doesNotMatch(stderr, UNPRINTABLE);
});
