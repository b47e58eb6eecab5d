import assert from "node:assert/strict";
import { StoreLock } from "../support/accidents.ts";
import { isMissing } from "../support/needs.ts";
import {
  assertSucceeded,
  exportLines,
  occurrences,
  Program,
  replyStatus,
  STACK,
} from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { eventually } from "../support/waiting.ts";
import { createBytes, Wire } from "../support/wire.ts";

const BODY = '{"id":7,"name":"Monstera"}';
const IDLE = '{"id":1,"name":"idle"}';
const HALF_BODY = createBytes(BODY, { headers: ["content-length: 100"] });

/** Waits until creates are running. */
async function untilRunning(program: Program, count: number): Promise<void> {
  await eventually(
    () => program.metric("plant_store_creates_running"),
    (running) => running === count,
  );
}

/** Waits until connections are refused; until then they must end unanswered. */
async function waitForRefusal(port: number): Promise<void> {
  await eventually(async () => {
    try {
      using wire = await Wire.connect(port);
      assert.equal(await wire.rest(), "");
      return false;
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return true;
      // The system had accepted it just before the end of the listener.
      if (error instanceof Deno.errors.ConnectionReset) return false;
      throw error;
    }
  });
}

Deno.test("SIGTERM lets a running create finish, refuses a body that is arriving, and does not wait for idle clients", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  const { port } = program;
  using silent = await Wire.connect(port);
  using headless = await Wire.connect(port);
  await headless.send(HALF_BODY.subarray(0, 30));
  using arriving = await Wire.connect(port);
  await arriving.send(HALF_BODY);
  using idle = await Wire.connect(port);
  await idle.send(createBytes(IDLE));
  assert.equal((await idle.reply())?.status, 200);
  using running = await Wire.connect(port);
  {
    using _lock = new StoreLock(store);
    await running.send(createBytes(BODY));
    await untilRunning(program, 2);
    program.process.kill("SIGTERM");
    await program.printed(/SIGTERM: draining\n/);
    await waitForRefusal(port);
  }
  assertRefusal(await arriving.reply(), { error: 50301 });
  assert.equal(await idle.rest(), "");
  assert.equal(await silent.rest(), "");
  const reply = await running.reply();
  assert.equal(reply?.status, 200, reply?.text);
  assertSucceeded(await program.ended());
  assert.match(program.stderr, /Z info: stopped\n$/);
  assert.doesNotMatch(program.stderr, STACK);
  assert.deepEqual(await exportLines(store), [IDLE, BODY]);
});

Deno.test("SIGHUP does not end a service without a token file", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  assert.match(await program.reload(), /Z info: nothing to reload: .*\n$/);
  assert.equal(await replyStatus(program.create(BODY)), 200);
  assertSucceeded(await program.stop());
});

Deno.test("a stop reports a store that was deleted just before", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  Deno.removeSync(store);
  const { stderr } = await program.stop();
  assert.match(
    stderr,
    /error: the store fails \(lost\): .* deleted [^]*info: stopped\n$/,
  );
});

Deno.test("SIGINT and SIGTERM that arrive at once stop a service once, and SIGALRM and SIGUSR2 do not end it", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  for (const signal of ["SIGALRM", "SIGUSR2"] as const) {
    program.process.kill(signal);
  }
  // A stopped process gets both when it continues, however late that is.
  for (const signal of ["SIGSTOP", "SIGINT", "SIGTERM", "SIGCONT"] as const) {
    program.process.kill(signal);
  }
  const { status, stderr } = await program.ended();
  assert.equal(status, 0, stderr);
  assert.equal(occurrences(stderr, /: draining/), 1, stderr);
  assert.equal(occurrences(stderr, /info: stopped\n/), 1, stderr);
});

Deno.test("a later signal ends a stop that is still waiting, with status 1", async () => {
  using directory = new TemporaryDirectory();
  const store = directory.file("plants.db");
  await using program = await Program.start(store);
  using running = await Wire.connect(program.port);
  using _lock = new StoreLock(store);
  await running.send(createBytes(BODY));
  await untilRunning(program, 1);
  program.process.kill("SIGTERM");
  await program.printed(/draining/);
  // Signals within half a second count as one, so it is sent until one is later.
  const again = setInterval(() => program.signal("SIGTERM"), 100);
  const { status, stderr } = await program.ended()
    .finally(() => clearInterval(again));
  assert.equal(status, 1, stderr);
  assert.doesNotMatch(stderr, STACK);
  assert.equal(await running.reply(), undefined);
});

Deno.test("SIGTERM ends a start that waits for a KV Connect server, and SIGHUP does not", async () => {
  // Its clients get no reply.
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using program = Program.spawn(
    ["--port", "0", "--kv", `http://127.0.0.1:${listener.addr.port}`],
    { env: { DENO_KV_ACCESS_TOKEN: "a-token" } },
  );
  using _connection = await program.causes(listener.accept());
  // It is still there for the second one.
  for (const _ of [1, 2]) {
    assert.match(await program.reload(), /nothing to reload/);
  }
  const { status, signal, stderr } = await program.stop("SIGTERM");
  assert.deepEqual([status, signal], [0, null], stderr);
  assert.doesNotMatch(stderr, STACK);
});

Deno.test({
  name: "a service stops when its terminal closes",
  ignore: isMissing("script"),
  async fn() {
    using directory = new TemporaryDirectory();
    const store = directory.file("plants.db");
    // The service inherits the third descriptor: its end is waited for, too.
    const shell = 'exec script -qfc "$0 $*" /dev/null >&2 3>&2';
    await using program = await Program.start(store, { shell });
    await program.stop("SIGKILL");
    await waitForRefusal(program.port);
  },
});
