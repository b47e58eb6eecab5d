import assert from "node:assert/strict";
import { eventually } from "../support/load.ts";
import { Program, runProgram, statusOf, TOKEN } from "../support/program.ts";
import { StoreLock } from "../support/temporary.ts";
import { fromSource, test, TestPlace } from "../support/tests.ts";

const PLANT = '{"id":1,"name":"Monstera"}';

/** Runs a service through every event that it logs; returns its log. */
async function logOfEverything(
  format: "text" | "json",
): Promise<{ banner: string; lines: string[] }> {
  using place = new TestPlace();
  const tokens = place.directory.file("tokens");
  Deno.writeTextFileSync(tokens, TOKEN);
  const env = { ACCESS_TOKEN_FILE: tokens, LOG_FORMAT: format };
  await using program = await place.start([], { env });
  const banner = program.stderr;

  // Ordinary requests, successful or not, are not logged.
  for (const body of [PLANT, PLANT, '{"id":1,"name":""}', "{", "{}"]) {
    await statusOf(program.create(body));
  }
  await statusOf(program.create(PLANT, "wrong"));
  for (const path of ["/", "/nowhere", "/readyz", "/metrics", "/plants"]) {
    await statusOf(program.get(path, TOKEN));
  }
  assert.equal(program.stderr, banner);

  await program.reload();
  Deno.writeTextFileSync(tokens, "");
  await program.reload();

  // Another process holds the store, until creates time out.
  {
    using _lock = new StoreLock(place.store);
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

  const { status, stdout, stderr } = await program.stop();
  assert.equal(status, 0);
  assert.equal(stdout, "");
  assert.ok(!stderr.includes(TOKEN), stderr);
  return { banner, lines: stderr.slice(banner.length).trimEnd().split("\n") };
}

/** Returns what identifies an entry in JSON. */
function toEvent({ level, event }: Record<"level" | "event", string>): string {
  return `${level} ${event}`;
}

Deno.test("the log has one line for each event, in text and in JSON, and none for an ordinary request", async () => {
  const [text, json] = await Promise.all([
    logOfEverything("text"),
    logOfEverything("json"),
  ]);
  const expected = [
    /^\S+Z info: reloaded 1 token from \/.*\/tokens$/,
    /^\S+Z error: the tokens did not change: .*\/tokens: /,
    /^\S+Z error: the store fails: /,
    /^\S+Z info: the store has recovered$/,
    /^\S+Z info: SIGTERM: draining$/,
    /^\S+Z info: stopped$/,
  ];
  assert.equal(text.lines.length, expected.length, text.lines.join("\n"));
  expected.forEach((line, i) => assert.match(text.lines[i] ?? "", line));

  const entries = [json.banner.trimEnd(), ...json.lines]
    .map((line) => JSON.parse(line));
  assert.deepEqual(entries.map(toEvent), [
    "info started",
    "info tokens reloaded",
    "error tokens kept",
    "error store failing",
    "info store recovered",
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
    /^<6>.* listens on http:\S+\n<6>SIGTERM: draining\n<6>stopped\n$/,
  );
  assert.equal(status, 0);
  const refused = await runProgram(["--frob"], { env });
  assert.equal(refused.stderr, "<3>unknown flag --frob: see --help\n");
  assert.equal(refused.status, 2);
});

test("the log in JSON names the events of a lost store, and of SIGHUP without a token file", async ({ directory }) => {
  const data = directory.file("data");
  Deno.mkdirSync(data);
  const env = { KV_PATH: `${data}/plants.db`, LOG_FORMAT: "json" };
  await using program = await Program.start([], { env });
  await program.reload();
  Deno.removeSync(data, { recursive: true });
  await program.printed(/cannot save the plants/);
  Deno.mkdirSync(data);
  await program.printed(/saved all plants/);
  const { stderr } = await program.stop();
  const entries = stderr.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(entries.map(toEvent), [
    "info started",
    "info tokens kept",
    "error store failing",
    "error plants not saved",
    "error plants saved",
    "info stopping",
    "info stopped",
  ]);
});

/**
 * A module with programmer errors: SIGWINCH rejects, and SIGUSR2 throws. Not
 * SIGUSR1, with which Deno 2.9 starts its inspector.
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

// A compiled program loads no other module.
fromSource.test("a programmer error is logged whole and does not end the service", async ({ directory, start }) => {
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
