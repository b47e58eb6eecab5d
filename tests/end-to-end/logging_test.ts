import assert from "node:assert/strict";
import { eventually } from "../support/load.ts";
import { Program, runProgram, statusOf, TOKEN } from "../support/program.ts";
import { StoreLock } from "../support/temporary.ts";
import { test } from "../support/tests.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

/** Returns what identifies an entry in JSON. */
function toEvent({ level, event }: Record<"level" | "event", string>): string {
  return `${level} ${event}`;
}

test("the log has one line for each event, and none for an ordinary request", async ({ directory }) => {
  const data = directory.file("data");
  const store = `${data}/plants.db`;
  Deno.mkdirSync(data);
  const tokens = directory.file("tokens");
  Deno.writeTextFileSync(tokens, TOKEN);
  const env = { ACCESS_TOKEN_FILE: tokens, LOG_FORMAT: "json" };
  await using program = await Program.start(["--kv", store], { env });
  const { length } = program.stderr;
  for (const body of [PLANT, PLANT, '{"id":1,"name":""}', "{", "{}"]) {
    await statusOf(program.create(body));
  }
  await statusOf(program.create(PLANT, "wrong"));
  for (const path of ["/", "/nowhere", "/readyz", "/metrics", "/plants"]) {
    await statusOf(program.get(path, TOKEN));
  }
  assert.equal(program.stderr.length, length);

  await program.reload();
  Deno.writeTextFileSync(tokens, "");
  await program.reload();

  // Another process holds the store, until creates time out.
  {
    using _lock = new StoreLock(store);
    const creates = Array.from(
      { length: 20 },
      (_, i) => statusOf(program.create({ id: i + 10, name: "Fern" })),
    );
    for (const status of await Promise.all(creates)) assert.equal(status, 503);
  }
  // The commit that waits for the lock ends at some time after its release.
  await eventually(
    (status) => status === 200,
    () => statusOf(program.create({ id: 30, name: "Fern" })),
  );
  await program.printed(/the store has recovered/);

  Deno.removeSync(data, { recursive: true });
  await program.printed(/cannot save the plants/);
  Deno.mkdirSync(data);
  await program.printed(/saved all plants/);

  const { stdout, stderr } = await program.stop();
  assert.equal(stdout, "");
  assert.ok(!stderr.includes(TOKEN), stderr);
  const entries = stderr.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(entries.map(toEvent), [
    "warning new store",
    "info started",
    "info tokens reloaded",
    "error tokens kept",
    "error store failing",
    "info store recovered",
    "error store failing",
    "error plants not saved",
    "error plants saved",
    "info stopping",
    "info stopped",
  ]);
  for (const { time, message } of entries) {
    assert.equal(new Date(time).toISOString(), time);
    assert.match(message, /^[^\n]+$/);
  }
});

test("the log for the journal has a level of systemd on each line, also of an error at the start", async ({ store }) => {
  const env = { LOG_FORMAT: "journal" };
  await using program = Program.spawn(["--port", "0", "--kv", store], { env });
  await program.printed(/listens on .*\n/);
  const { status, stderr } = await program.stop();
  assert.match(
    stderr,
    /^<4>created a new, empty store in \S+\n<6>.* listens on http:\S+\n<6>SIGTERM: draining\n<6>stopped\n$/,
  );
  assert.equal(status, 0);
  const refused = await runProgram(["--frob"], { env });
  assert.equal(refused.stderr, "<3>unknown flag --frob: see --help\n");
  assert.equal(refused.status, 2);
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

test("a programmer error is logged whole and does not end the service", async ({ directory, start }) => {
  const bugs = directory.file("bugs.ts");
  Deno.writeTextFileSync(bugs, BUGS);
  await using program = await start([], {
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
    const [, id] = await program.printed(
      /error.*internal error ([\da-f-]{36})\b/,
      before,
    );
    ids.add(id);
    await program.printed(bug, before);
    assert.equal(await statusOf(program.create(PLANT)), 200);
  }
  assert.equal(ids.size, 2);
  const { status, signal } = await program.stop();
  assert.deepEqual([status, signal], [0, null]);
});
