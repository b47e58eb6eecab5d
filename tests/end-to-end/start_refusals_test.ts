/**
 * Refusals and failures of commands, as only the real program can show them. The
 * tests in `config`, `console` and `store` have everything that is refused.
 */
import assert from "node:assert/strict";
import { STORE_OPEN_MS_MAX } from "../../src/limits.ts";
import { FakeKvServer, KV_ENV } from "../support/kv_server.ts";
import { onLinux } from "../support/needs.ts";
import {
  assertOneLine,
  type Ended,
  type ProgramOptions,
  runProgram,
} from "../support/program.ts";
import { assertInjected, tracedOn, withStrace } from "../support/strace.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";

const CHECK = "check its address, and its token in DENO_KV_ACCESS_TOKEN";

function startOn(store: string, options?: ProgramOptions): Promise<Ended> {
  return runProgram(["--port", "0", "--kv", store], options);
}

test("serve refuses an invalid command line with one object in the JSON format, even before that flag", async () => {
  const { stderr, status } = await runProgram(["--frob", "--log-format=json"]);
  assert.match(stderr, /^[^\n]+\n$/);
  const { time, ...entry } = JSON.parse(stderr);
  assert.equal(new Date(time).toISOString(), time);
  assert.deepEqual(entry, {
    level: "error",
    event: "failed",
    message: "unknown flag --frob: see --help",
  });
  assert.equal(status, 2);
});

withStrace.test("serve refuses a directory that cannot be listed with one line, and creates no store", async ({ directory, store }) => {
  using away = new TemporaryDirectory();
  const trace = away.file("trace");
  const options = tracedOn(directory.path, trace, "inject=openat:error=EIO");
  const ended = await startOn(store, options);
  assertInjected(trace);
  assertOneLine(ended, 1, /: cannot store plants in \S+: Input\/output error/);
  assert.deepEqual(directory.names(), []);
});

test("serve fails with one line if its port is taken, and creates no store", async ({ directory, store }) => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  assertOneLine(
    await runProgram(["--port", `${port}`, "--kv", store]),
    1,
    `cannot listen on 127.0.0.1 port ${port}: another program listens there: ` +
      "stop it, or choose another --port",
  );
  assert.deepEqual(directory.names(), []);
});

onLinux.test("serve refuses with one line a store below /dev or /proc before it is created", async () => {
  for (const directory of ["/dev/shm", "/proc"]) {
    const path = `${directory}/${crypto.randomUUID()}.db`;
    const ended = await startOn(path);
    assertOneLine(ended, 2, /cannot store plants in \/.*: check the path in /);
    // Deno itself needs all permissions to look there.
    await runTool("test", ["!", "-e", path]);
  }
});

test("serve waits 9 s for a KV Connect server that does not answer, then fails with one line", async () => {
  // Its clients get no reply.
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${silent.addr.port}/`;
  assertOneLine(
    await startOn(url, { env: KV_ENV }),
    1,
    `cannot store plants in ${url}: no answer within ` +
      `${STORE_OPEN_MS_MAX / 1_000} s: ${CHECK}`,
  );
});

test("a start and an export show the text of a KV Connect server that refuses them on one harmless line", async () => {
  const token = KV_ENV.DENO_KV_ACCESS_TOKEN;
  const text = `wrong token: ${token} \x1b[31mred\r\n\u2028${"x".repeat(1e5)}`;
  for (
    const [kind, ...args] of [
      ["metadata", "serve", "--port", "0"],
      ["data", "export"],
    ] as const
  ) {
    await using server = new FakeKvServer();
    server[kind] = () => new Response(text, { status: 403 });
    const run = [...args, "--kv", server.url];
    const ended = await runProgram(run, { env: KV_ENV });
    assertOneLine(ended, 1, new RegExp(`: cannot .*: ${CHECK}$`, "m"));
    assert.match(ended.stderr, /wrong token: \[token\] \\u\{1b\}\[31mred x+…/);
    assert.ok(ended.stderr.length < 600, ended.stderr);
  }
});

onLinux.test("a command fails with one line if stdout cannot be written, and keeps its exit status if stderr cannot", async () => {
  const stdout = { shell: '"$0" "$@" > /dev/full' };
  const ended = await runProgram(["--help"], stdout);
  assertOneLine(ended, 1, /cannot write to stdout: No space left on device/);
  const stderr = { shell: '"$0" "$@" 2> /dev/full' };
  const silent = await runProgram(["--frob"], stderr);
  assert.deepEqual([silent.status, silent.stderr], [2, ""]);
});
