import assert from "node:assert/strict";
import { BackgroundProcess } from "../support/background.ts";
import { eventually } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import {
  assertSucceeded,
  Program,
  statusOf,
  writeScript,
} from "../support/program.ts";
import { read } from "../support/readme.ts";
import { assertInjected, traced, withStrace } from "../support/strace.ts";
import { test } from "../support/tests.ts";
import { freePort, runTool } from "../support/tools.ts";
import { createStore } from "../support/transfer.ts";

for (const tokens of ["", "first,second"]) {
  needs("curl").test(
    `serve with ACCESS_TOKEN=${tokens} prints a curl command that creates a plant in a shell with this variable`,
    async ({ start }) => {
      const ownToken = tokens === "";
      const env = { ...(!ownToken && { ACCESS_TOKEN: tokens }) };
      await using program = await start([], { env, ownToken });
      const [, curl] = /^ {2}(curl [^]*?)\n\n/m.exec(program.stderr) ?? [];
      const script = `ACCESS_TOKEN=${tokens}; ${curl} 2>/dev/null`;
      const reply = await runTool("sh", ["-c", script]);
      assert.match(reply, /^HTTP\/1\.1 200 /);
      assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
    },
  );
}

test("serve reads its tokens from a FIFO at the start", async ({ directory, start }) => {
  const fifo = directory.file("fifo");
  await runTool("mkfifo", [fifo]);
  const starting = start(["--token-file", fifo], { ownToken: true });
  // Opening a FIFO to write waits for its reader, who needs several reads.
  const text = `first\n${"\n".repeat(500_000)}second\n`;
  await Deno.writeTextFile(fifo, text, { create: false });
  await using program = await starting;
  for (const token of ["first", "second"]) {
    assert.equal(await statusOf(program.get("/metrics", token)), 200);
  }
});

needs("bash").test(
  "serve reads its tokens from a process substitution at the start",
  async ({ start }) => {
    await using program = await start([], {
      ownToken: true,
      shell: `exec bash -c '"$0" "$@" --token-file <(echo a-token)' "$0" "$@"`,
    });
    assert.equal(await statusOf(program.get("/metrics", "a-token")), 200);
  },
);

const [, POST = ""] = /^ExecStartPost=\/bin\/sh -c '(.+)'$/m
  .exec(read("src/deploy/plant-store.service")) ?? [];
// systemd makes one dollar sign of two.
const START_POST = POST.replaceAll("$$", () => "$");

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
    assert.equal((await other.ended()).status, 1);
    await assert.rejects(startPost(other.process));
  },
);

needs("Linux").test(
  "the unit's ExecStartPost logs why the service is not ready when its time is over",
  async ({ directory, start }) => {
    const file = directory.file("plant-store");
    writeScript(file);
    await using program = await start();
    // In the loop, a second check follows what the first one has answered.
    const log = directory.file("checks");
    const check = directory.file("check");
    const script = `#!/bin/sh\necho >> ${log}; exec ${file} "$@"\n`;
    Deno.writeTextFileSync(check, script, { mode: 0o755 });
    await using waiting = new BackgroundProcess("sh", {
      args: [
        "-c",
        START_POST.replaceAll("/usr/local/bin/plant-store", check),
      ],
      env: { PORT: `${freePort()}`, MAINPID: `${program.process.pid}` },
    });
    await waiting.causes(eventually(
      (lines) => lines.length > 1,
      () => Deno.readTextFile(log).catch(() => ""),
    ));
    const { stdout } = await waiting.stop("SIGTERM");
    assert.match(
      stdout,
      /^<3>plant-store: no answer from 127\.0\.0\.1 port \d+: .*\n$/,
    );
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
  assertSucceeded(await program.stop());
  assertInjected(trace);
});
