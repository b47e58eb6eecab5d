import assert from "node:assert/strict";
import { eventually } from "../support/waiting.ts";
import { needs } from "../support/needs.ts";
import {
  assertSucceeded,
  occurrences,
  Program,
  STACK,
} from "../support/program.ts";
import { assertRefusal } from "../support/refusals.ts";
import { StoreLock } from "../support/temporary.ts";
import { test } from "../support/tests.ts";
import { exportLines } from "../support/transfer.ts";
import { request, Wire } from "../support/wire.ts";

const onTerminal = needs("script");

const BODY = '{"id":7,"name":"Monstera"}';
const IDLE = '{"id":1,"name":"idle"}';
const HALF_BODY = request(BODY, { headers: ["content-length: 100"] });

/** Waits until creates are running. */
async function untilRunning(program: Program, count: number): Promise<void> {
  await eventually(
    (running) => running === count,
    () => program.metric("plant_store_creates_running"),
  );
}

/** Waits until connections are refused; until then they must end unanswered. */
async function waitForRefusal(port: number): Promise<void> {
  await eventually((isRefused) => isRefused, async () => {
    try {
      using wire = await Wire.connect(port);
      assert.equal(await wire.rest(), "");
      return false;
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return true;
      throw error;
    }
  });
}

test("SIGTERM lets a running create finish, refuses a body that is arriving, and does not wait for idle clients", async ({ store, start }) => {
  await using program = await start();
  const { port } = program;
  using silent = await Wire.connect(port);
  using headless = await Wire.connect(port);
  await headless.send(HALF_BODY.subarray(0, 30));
  using arriving = await Wire.connect(port);
  await arriving.send(HALF_BODY);
  using idle = await Wire.connect(port);
  await idle.send(request(IDLE));
  assert.equal((await idle.reply())?.status, 200);
  using running = await Wire.connect(port);
  {
    using _lock = new StoreLock(store);
    await running.send(request(BODY));
    await untilRunning(program, 2);
    program.process.kill("SIGTERM");
    await program.printed(/SIGTERM: draining\n/);
    assertRefusal(await arriving.reply(), { error: 50301 });
    assert.equal(await idle.rest(), "");
    assert.equal(await silent.rest(), "");
    await waitForRefusal(port);
  }
  const reply = await running.reply();
  assert.equal(reply?.status, 200, reply?.text);
  assertSucceeded(await program.ended());
  assert.match(program.stderr, /Z info: stopped\n$/);
  assert.doesNotMatch(program.stderr, STACK);
  assert.deepEqual(await exportLines(store), [IDLE, BODY]);
});

test("SIGHUP does not end a service without a token file, and signals within half a second count as one", async ({ start }) => {
  await using program = await start();
  assert.match(await program.reload(), /Z info: nothing to reload: .*\n$/);
  program.process.kill("SIGINT");
  program.process.kill("SIGTERM");
  assertSucceeded(await program.stop("SIGINT"));
  const { stderr } = program;
  assert.equal(occurrences(stderr, /: draining/g), 1, stderr);
  assert.equal(occurrences(stderr, /info: stopped\n/g), 1, stderr);
});

test("a later signal ends a stop that is still waiting, with status 1", async ({ store, start }) => {
  await using program = await start();
  using running = await Wire.connect(program.port);
  using _lock = new StoreLock(store);
  await running.send(request(BODY));
  await untilRunning(program, 1);
  program.process.kill("SIGTERM");
  await program.printed(/draining/);
  // The first of these count as the signal above.
  const again = setInterval(() => void program.stop("SIGTERM"), 100);
  const { status, stderr } = await program.ended()
    .finally(() => clearInterval(again));
  assert.equal(status, 1, stderr);
  assert.doesNotMatch(stderr, STACK);
  assert.equal(await running.reply(), undefined);
});

test("SIGTERM ends a start that waits for a KV Connect server, and SIGHUP does not", async () => {
  // Its clients get no reply.
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using program = Program.spawn(
    ["--port", "0", "--kv", `http://127.0.0.1:${listener.addr.port}`],
    { env: { DENO_KV_ACCESS_TOKEN: "a-token" } },
  );
  using _connection = await program.causes(listener.accept());
  program.process.kill("SIGHUP");
  const { status, signal, stderr } = await program.stop("SIGTERM");
  assert.deepEqual([status, signal], [0, null], stderr);
  assert.doesNotMatch(stderr, STACK);
});

onTerminal.test("a service stops when its terminal closes", async ({ start }) => {
  // The service inherits the third descriptor: its end is waited for, too.
  const shell = 'exec script -qfc "$0 $*" /dev/null >&2 3>&2';
  await using program = await start([], { shell });
  await program.stop("SIGKILL");
  await waitForRefusal(program.port);
});
