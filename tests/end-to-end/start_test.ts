import assert from "node:assert/strict";
import config from "../../deno.json" with { type: "json" };
import { needs } from "../support/needs.ts";
import { Program, statusOf, writeScript } from "../support/program.ts";
import { read } from "../support/readme.ts";
import { assertInjected, traced, withStrace } from "../support/strace.ts";
import { test } from "../support/tests.ts";
import { runTool } from "../support/tools.ts";
import { createStore } from "../support/transfer.ts";

/** Returns the curl command that a start printed. */
function curlIn(stderr: string): string {
  const [, curl = ""] = /^ {2}(curl [^]*?)\n\n/m.exec(stderr) ?? [];
  return curl;
}

test("serve prints where it listens and stores, and a token of this run", async ({ store, start }) => {
  await using program = await start([], { ownToken: true });
  const { stderr, origin } = program;
  const { version } = config;
  for (
    const line of [
      `Plant Store ${version} listens on ${origin}`,
      `Created a new, empty store in ${store}`,
      `API reference: ${origin}/`,
    ]
  ) assert.ok(stderr.includes(`${line}\n`), stderr);
  const [, token = ""] = /Bearer ([0-9a-f]{32})"/.exec(curlIn(stderr)) ?? [];
  assert.equal(await statusOf(program.create("{}", token)), 400);
  assert.equal(await statusOf(program.create("{}", "0".repeat(32))), 401);
});

for (const tokens of ["", "one", "first,second", "a,a"]) {
  needs("curl").test(
    `serve with ACCESS_TOKEN=${tokens} prints a curl command that creates a plant in a shell with this variable`,
    async ({ start }) => {
      const ownToken = tokens === "";
      const env = { ...(!ownToken && { ACCESS_TOKEN: tokens }) };
      await using program = await start([], { env, ownToken });
      const curl = curlIn(program.stderr);
      const script = `ACCESS_TOKEN=${tokens}; ${curl} 2>/dev/null`;
      for (let i = 0; i < 2; i++) {
        const reply = await runTool("sh", ["-c", script]);
        assert.match(reply, /^HTTP\/1\.1 200 /);
        assert.ok(
          reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'),
        );
      }
    },
  );
}

const [, START_POST = ""] = /^ExecStartPost=\/bin\/sh -c '(.+)'$/m
  .exec(read("src/deploy/plant-store.service")) ?? [];

needs("Linux").test(
  "the unit's ExecStartPost succeeds when the service is ready, and fails if another one answers at its port",
  async ({ directory, start }) => {
    const file = directory.file("plant-store");
    writeScript(file);
    const script = START_POST.replaceAll("/usr/local/bin/plant-store", file);
    assert.notEqual(script, START_POST);
    await using program = await start();
    const PORT = `${program.port}`;
    const startPost = ({ pid }: Deno.ChildProcess) =>
      runTool("sh", ["-c", script], { env: { PORT, MAINPID: `${pid}` } });
    await startPost(program.process);
    const store = directory.file("other.db");
    await using other = Program.spawn(["--port", PORT, "--kv", store]);
    await assert.rejects(startPost(other.process));
    assert.equal((await other.ended()).status, 1);
  },
);

withStrace.test("a start succeeds on a disk whose syncs take a second", async ({ directory, store, start }) => {
  await createStore(store, 1);
  const trace = directory.file("trace");
  const delay = "inject=fsync,fdatasync:delay_exit=1000000";
  await using program = await start(
    [],
    traced(trace, "trace=fsync,fdatasync", delay),
  );
  assert.equal((await program.stop()).status, 0);
  assertInjected(trace);
});
