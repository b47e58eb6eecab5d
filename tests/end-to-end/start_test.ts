import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { API_ERRORS } from "../../src/api_errors.ts";
import { has, statusOf } from "../support/program.ts";
import { makeStore } from "../support/places.ts";
import { assertInjected, traced, withStrace } from "../support/strace.ts";
import { test, testsIf } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";

const HAS_CURL = await has("curl", "--version");

/** Runs a command in a shell and returns its output. */
function shell(command: string): Promise<string> {
  return runTool("sh", ["-c", `${command} 2>/dev/null`]);
}

/** Returns the curl command that a start printed. */
function curlIn(stderr: string): string {
  const [, curl = ""] = /^ {2}(curl [^]*?)\n\n/m.exec(stderr) ?? [];
  return curl;
}

test("serve prints where it listens and stores, and a curl command that creates a plant with a token of this run", async ({ store, start }) => {
  await using program = await start([], { ownToken: true });
  const { stderr, origin } = program;
  assert.ok(
    stderr.startsWith(`Plant Store ${config.version} listens on ${origin}\n`),
    stderr,
  );
  assert.ok(
    stderr.includes(`\nCreated a new, empty store in ${store}\n`),
    stderr,
  );
  assert.match(stderr, /\nNo token is configured: .* for this run\n/);
  assert.ok(stderr.endsWith(`\n\nAPI reference: ${origin}/\n\n`), stderr);
  const curl = curlIn(stderr);
  const [, token = ""] = /Bearer ([0-9a-f]{32})"/.exec(curl) ?? [];
  assert.equal(await statusOf(program.create("{}", token)), 400);
  assert.equal(await statusOf(program.create("{}", "0".repeat(32))), 401);
  assert.ok(curl.includes(`${origin}/plants`), curl);
  if (!HAS_CURL) return;
  for (let i = 0; i < 2; i++) {
    const reply = await shell(curl);
    assert.match(reply, /^HTTP\/1\.1 200 /);
    assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
  }
  const conflict = await shell(curl.replace("Monstera", "M"));
  assert.ok(conflict.includes(`"error":${API_ERRORS.idTaken.error}`), conflict);
});

testsIf(HAS_CURL).test(
  "serve with several tokens prints a curl command that works in a shell with the same variable",
  async ({ start }) => {
    const ACCESS_TOKEN = "first,second";
    await using program = await start([], { env: { ACCESS_TOKEN } });
    const curl = curlIn(program.stderr);
    const reply = await shell(`ACCESS_TOKEN=${ACCESS_TOKEN}; ${curl}`);
    assert.match(reply, /^HTTP\/1\.1 200 /);
  },
);

withStrace.test("a start succeeds on a disk whose syncs take a second", async ({ directory, store, start }) => {
  await makeStore(store);
  const trace = directory.file("trace");
  const delay = "inject=fsync,fdatasync:delay_exit=1000000";
  await using program = await start(
    [],
    traced(trace, "trace=fsync,fdatasync", delay),
  );
  assert.equal((await program.stop()).status, 0);
  assertInjected(trace);
});
