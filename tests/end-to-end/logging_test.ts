import assert from "node:assert/strict";
import {
  assertSucceeded,
  BINARY,
  Program,
  replyStatus,
  TOKEN,
} from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { runTool } from "../support/tools.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

Deno.test("the log has one line for each event, and none for an ordinary request", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, TOKEN);
  const env = { ACCESS_TOKEN_FILE: tokens, LOG_FORMAT: "json" };
  await using program = await Program.start(store, { env });
  const { length } = program.stderr;
  for (const body of [PLANT, PLANT, '{"id":1,"name":""}', "{", "{}"]) {
    await replyStatus(program.create(body));
  }
  await replyStatus(program.create(PLANT, "wrong"));
  for (const path of ["/", "/nowhere", "/livez", "/metrics", "/plants"]) {
    await replyStatus(program.get(path));
  }
  assert.equal(program.stderr.length, length);

  Deno.writeTextFileSync(tokens, "new-token");
  await program.reload();
  const create = program.create(PLANT, "new-token");
  assert.equal(await replyStatus(create), 200);
  Deno.writeTextFileSync(tokens, "");
  await program.reload();
  Deno.removeSync(store);
  await program.printed(/"store saved".*\n/);

  const { stdout, stderr } = await program.stop();
  assert.equal(stdout, "");
  assert.ok(!stderr.includes(TOKEN), stderr);
  const events: string[] = [];
  for (const line of stderr.trimEnd().split("\n")) {
    const { time, level, event, message } = JSON.parse(line);
    assert.equal(new Date(time).toISOString(), time);
    assert.match(message, /^[^\n]+$/);
    events.push(`${level} ${event}`);
  }
  assert.deepEqual(events, [
    "info started",
    "info tokens",
    "warning new store",
    "info tokens reloaded",
    "error tokens kept",
    "error store failing",
    "error store saved",
    "info stopping",
    "info stopped",
  ]);
});

Deno.test("a reload refuses a token file that is a pipe now, and keeps the tokens", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, TOKEN);
  const env = { ACCESS_TOKEN_FILE: tokens };
  await using program = await Program.start(store, { env });
  Deno.removeSync(tokens);
  // To read a pipe that has no writer would block the service.
  await runTool("mkfifo", [tokens]);
  assert.match(
    await program.reload(),
    /Z error: the tokens did not change: ACCESS_TOKEN_FILE: \S+ is a pipe\n$/,
  );
  assert.equal(await replyStatus(program.create(PLANT)), 200);
});

/**
 * A module with programmer errors: SIGWINCH rejects, and SIGUSR2 throws. Not
 * SIGUSR1, with which Deno starts its inspector.
 */
const BUGS = `
Deno.addSignalListener("SIGWINCH", () => {
  Promise.reject(new TypeError("the first bug"));
});
Deno.addSignalListener("SIGUSR2", () => {
  setTimeout(function badCallback() {
    throw new Error("the second bug", { cause: "its cause" });
  });
});
`;

Deno.test({
  name: "a programmer error is logged whole and does not end the service",
  // Deno loads a module before main.ts, a compiled program does not.
  ignore: BINARY !== undefined,
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    const bugs = directory.file("bugs.ts");
    Deno.writeTextFileSync(bugs, BUGS);
    await using program = await Program.start(store, {
      shell: `shift; exec "$0" run --preload "${bugs}" "$@"`,
    });
    const ids = new Set<string | undefined>();
    for (
      const [signal, bug] of [
        ["SIGWINCH", /TypeError: the first bug\b[^]*at .*bugs\.ts:\d+:\d+/],
        ["SIGUSR2", /the second bug\b[^]*badCallback[^]*its cause/],
      ] as const
    ) {
      const before = program.stderr.length;
      program.process.kill(signal);
      const entry = /error.*internal error ([\da-f-]{36})\b/;
      const [, id] = await program.printed(entry, before);
      ids.add(id);
      await program.printed(bug, before);
      assert.equal(await replyStatus(program.create(PLANT)), 200);
    }
    assert.equal(ids.size, 2);
    assertSucceeded(await program.stop());
  },
});
