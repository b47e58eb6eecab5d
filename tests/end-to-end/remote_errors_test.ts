/** A KV Connect server that cannot be used, and what its errors may contain. */
import assert from "node:assert/strict";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { test } from "../support/tests.ts";

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

test("an error text of a KV Connect server is one harmless line when a start or an export fails", async () => {
  for (
    const [kind, ...args] of [
      ["metadata", "serve", "--port", "0"],
      ["data", "export"],
    ] as const
  ) {
    await using server = new FakeKvServer();
    server[kind] = () => new Response(HOSTILE, { status: 403 });
    const ended = await runProgram([...args, "--kv", server.url], {
      env: KV_ENV,
    });
    assertOneLine(
      ended,
      1,
      /^plant-store: cannot .*: check its address, and its token in DENO_KV_ACCESS_TOKEN$/m,
    );
    assertHarmless(ended.stderr);
  }
});
