import assert from "node:assert/strict";
import {
  type Handler,
  HttpServer,
  type Listening,
  type Serve,
  tryToListen,
} from "../../src/http/server.ts";
import { LISTEN_AGAIN_MS_MAX } from "../../src/limits.ts";
import { Log } from "../../src/telemetry/log.ts";
import { FakeClock, settled } from "../support/fake_store.ts";
import { eventually } from "../support/load.ts";
import { makeTls, withOpenssl } from "../support/tools.ts";
import { Wire } from "../support/wire.ts";

const GET = "GET / HTTP/1.1\r\nHost: plants.test\r\n\r\n";

const hello: Handler = () => Promise.resolve(new Response("hello"));

/** Starts a server, by default on a free port. */
function start(
  listening: Partial<Listening> = {},
  handler: Handler = hello,
): HttpServer {
  const free = { host: "127.0.0.1", port: 0, tls: undefined };
  const address = { ...free, ...listening };
  return new HttpServer(address, {
    handler,
    log: new Log("text"),
    clock: new FakeClock(),
  });
}

function portOf({ address }: HttpServer): number {
  return Number(new URL(address).port);
}

Deno.test("HttpServer names its address, and an origin that reaches it", async () => {
  for (
    const [host, origin] of [
      ["127.0.0.1", "http://127.0.0.1"],
      ["0.0.0.0", "http://localhost"],
    ] as const
  ) {
    const server = start({ host });
    const port = portOf(server);
    assert.ok(port > 0);
    assert.equal(server.address, `http://${host}:${port}`);
    assert.equal(server.origin, `${origin}:${port}`);
    const response = await fetch(server.origin);
    assert.equal(await response.text(), "hello");
    await server.shutdown();
  }
});

Deno.test("HttpServer and tryToListen() throw if they cannot listen, and tryToListen() leaves the address free", () => {
  const other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr;
  const listening = { host: "127.0.0.1", port, tls: undefined };
  assert.throws(() => start(listening), Deno.errors.AddrInUse);
  assert.throws(() => tryToListen(listening), Deno.errors.AddrInUse);
  other.close();
  for (let i = 0; i < 2; i++) tryToListen(listening);
});

withOpenssl.test("HttpServer with a certificate has an https address and origin", async ({ directory }) => {
  const pair = await makeTls(directory, "plants");
  const server = start({ tls: { pair } });
  assert.equal(server.address, `https://127.0.0.1:${portOf(server)}`);
  assert.equal(server.origin, server.address);
  await server.shutdown();
});

Deno.test("shutdown() ends idle connections, refuses new ones, and resolves when running requests have their replies", async () => {
  const arrived = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  const server = start({}, async () => {
    arrived.resolve();
    await resumed.promise;
    return new Response("late");
  });
  let hasFailed = false;
  server.failed.catch(() => hasFailed = true);
  const port = portOf(server);
  using running = await Wire.connect(port);
  await running.send(GET);
  await arrived.promise;
  using idle = await Wire.connect(port);

  let isDone = false;
  const done = server.shutdown().then(() => isDone = true);
  assert.equal(await idle.rest(), "");
  // The runtime may close the idle connection before the listener.
  await eventually(
    (error) => error instanceof Deno.errors.ConnectionRefused,
    () =>
      Deno.connect({ hostname: "127.0.0.1", port })
        .then((connection) => connection.close(), (error) => error),
  );
  assert.equal(isDone, false);
  resumed.resolve();
  assert.equal((await running.reply())?.text, "late");
  assert.equal(await running.rest(), "");
  await done;
  assert.equal(hasFailed, false);
  tryToListen({ host: "127.0.0.1", port, tls: undefined });
});

/**
 * Serves as `Deno.serve` does, but a test decides when a server stops listening,
 * which calls fail, and when the pause before the next call ends.
 */
class Runtime {
  calls = 0;
  /** How many of the next attempts to listen fail, with {@link problem}. */
  failures = 0;
  readonly problem = new Error("too many open files");
  /** Makes the last server stop as it does without a file descriptor. */
  stop = () => Promise.resolve();
  readonly clock = new FakeClock();
  /** The entries of the log. */
  readonly logged: string[] = [];

  readonly serve: Serve = (options) => {
    this.calls++;
    if (this.failures-- > 0) throw this.problem;
    const server = Deno.serve(options);
    let isStopped = false;
    this.stop = () => {
      isStopped = true;
      return server.shutdown();
    };
    async function end(ended: Promise<void>): Promise<void> {
      await ended;
      if (isStopped) throw new Deno.errors.Http("the runtime stopped");
    }
    return {
      addr: server.addr,
      finished: end(server.finished),
      shutdown: () => end(server.shutdown()),
    };
  };

  /** Starts a server of this runtime. */
  start(): HttpServer {
    const log = new Log("text", (entry) => this.logged.push(entry));
    const address = { host: "127.0.0.1", port: 0, tls: undefined };
    return new HttpServer(address, {
      handler: hello,
      log,
      clock: this.clock,
      serve: this.serve,
    });
  }

  /** Lets a second pass, after which the server tries to listen again. */
  async second(): Promise<void> {
    await settled();
    const [pause, ...others] = this.clock.sleeps.splice(0);
    assert.equal(pause?.ms, 1_000);
    assert.deepEqual(others, []);
    pause.wake();
    await settled();
  }

  /** Asserts the levels and the messages of the log. */
  assertLogged(...expected: readonly string[]): void {
    const entries = this.logged.map((entry) => entry.replace(/^\S+ /, ""));
    assert.deepEqual(entries, expected);
  }
}

const LOST = "error: the runtime stopped listening";

Deno.test("HttpServer listens again on its port each time the runtime stops, and logs each loss and recovery", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  const { address } = server;
  const events = [LOST, `info: listening on ${address} again`];
  for (const expected of [events, [...events, ...events]]) {
    await runtime.stop();
    runtime.failures = 1;
    await runtime.second();
    await runtime.second();
    runtime.assertLogged(...expected);
    assert.equal(server.address, address);
    const response = await fetch(server.origin);
    assert.equal(await response.text(), "hello");
  }
  await server.shutdown();
  runtime.assertLogged(...events, ...events);
});

Deno.test("HttpServer fails if it cannot listen again for a minute, an attempt a second, whatever failed before", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  const tries = LISTEN_AGAIN_MS_MAX / 1_000;
  await runtime.stop();
  runtime.failures = tries - 1;
  for (let i = 0; i < tries; i++) await runtime.second();
  const recovered = `info: listening on ${server.address} again`;
  runtime.assertLogged(LOST, recovered);

  await runtime.stop();
  runtime.failures = Infinity;
  for (let i = 0; i < tries; i++) await runtime.second();
  await assert.rejects(server.failed, runtime.problem);
  assert.equal(runtime.calls, 1 + 2 * tries);
  assert.deepEqual(runtime.clock.sleeps, []);
  runtime.assertLogged(LOST, recovered, LOST);
});

Deno.test("shutdown() ends the attempts to listen again", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  await runtime.stop();
  await settled();
  await server.shutdown();
  await runtime.second();
  assert.equal(runtime.calls, 1);
  assert.deepEqual(runtime.clock.sleeps, []);
  runtime.assertLogged(LOST);
});
