import assert from "node:assert/strict";
import { needs } from "../support/needs.ts";
import { assertSucceeded, replyStatus } from "../support/program.ts";
import { traced, wasInjected, withStrace } from "../support/strace.ts";
import { runTool } from "../support/tools.ts";
import { createStore } from "../support/transfer.ts";

const withCurl = needs("curl");
const withBash = needs("bash");

for (const [tokens, token] of [["", ""], ["first,second", "second"]] as const) {
  withCurl.test(`serve with ACCESS_TOKEN=${tokens} prints a curl command that creates a plant in a shell with ACCESS_TOKEN=${token}`, async ({ start }) => {
    const ownToken = tokens === "";
    const env = { ...(!ownToken && { ACCESS_TOKEN: tokens }) };
    await using program = await start([], { env, ownToken });
    const [, curl] = /^ {2}(curl [^]*?)\n\n/m.exec(program.stderr) ?? [];
    const script = `ACCESS_TOKEN=${token}; ${curl} 2>/dev/null`;
    const reply = await runTool("sh", ["-c", script]);
    assert.match(reply, /^HTTP\/1\.1 200 /);
    assert.ok(reply.endsWith('\r\n\r\n{"name":"Monstera","tag":"climber"}'));
  });
}

withBash.test("serve reads its tokens from a process substitution, with several reads", async ({ start }) => {
  await using program = await start([], {
    ownToken: true,
    shell:
      `exec bash -c '"$0" "$@" --token-file <(echo first; yes "" | head -500000; echo second)' "$0" "$@"`,
  });
  for (const token of ["first", "second"]) {
    assert.equal(await replyStatus(program.get("/metrics", token)), 200);
  }
});

withStrace.test("a start succeeds on a disk whose syncs take a second", async ({ directory, store, start }) => {
  await createStore(store, 1);
  const trace = directory.file("trace");
  const delay = "inject=fsync,fdatasync:delay_exit=1000000";
  const options = traced(trace, "trace=fsync,fdatasync", delay);
  await using program = await start([], options);
  assertSucceeded(await program.stop());
  assert.ok(wasInjected(trace));
});
