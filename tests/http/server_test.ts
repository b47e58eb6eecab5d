import assert from "node:assert/strict";
import { type Clock, SYSTEM_CLOCK } from "../../src/clock.ts";
import {
  type Handler,
  HttpServer,
  type Listening,
  type Serve,
  tryToListen,
} from "../../src/http/server.ts";
import { LISTEN_AGAIN_MS_MAX } from "../../src/limits.ts";
import { Log } from "../../src/telemetry/log.ts";
import { eventually, pause } from "../support/load.ts";
import { makeTls, withOpenssl } from "../support/tools.ts";
import { Wire } from "../support/wire.ts";

const GET = "GET / HTTP/1.1\r\nHost: plants.test\r\n\r\n";

/** The time of these tests between two attempts to listen again. */
const RETRY_MS = 5;

/** A clock on which a second takes a shorter time. */
const CLOCK: Clock = {
  nowMs: () => SYSTEM_CLOCK.nowMs(),
  sleep(ms) {
    assert.equal(ms, 1_000);
    return SYSTEM_CLOCK.sleep(RETRY_MS);
  },
};

/** The entries of the log of the servers. */
let logged: string[] = [];

const hello: Handler = () => Promise.resolve(new Response("hello"));

/** Starts a server, by default on a free port. */
function start(
  listening: Partial<Listening> = {},
  handler: Handler = hello,
  serve?: Serve,
): HttpServer {
  logged = [];
  const log = new Log("text", (line) => logged.push(line));
  const free = { host: "127.0.0.1", port: 0, tls: undefined };
  const address = { ...free, ...listening };
  return new HttpServer(address, handler, log, CLOCK, serve);
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

Deno.test("HttpServer with port 0 listens on a free port each time, and on that port if it is given", async () => {
  const first = start();
  const second = start();
  assert.notEqual(portOf(first), portOf(second));
  await first.shutdown();
  const again = start({ port: portOf(first) });
  assert.equal(again.address, first.address);
  await Promise.all([again.shutdown(), second.shutdown()]);
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
  const tls = await makeTls(directory, "plants");
  const server = start({ tls });
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
 * Serves as `Deno.serve` does, but a test decides when its servers stop
 * listening and which calls fail.
 */
class Runtime {
  calls = 0;
  /** Called before each attempt to listen, which fails if it throws. */
  onListen = () => {};
  /** How many of the next servers stop at once. */
  stopping = 0;
  /** Makes the last server stop as it does without a file descriptor. */
  stop = () => {};

  readonly serve: Serve = (options) => {
    this.calls++;
    this.onListen();
    const hasStopped = new Deno.errors.Http("the runtime stopped");
    if (this.stopping-- > 0) {
      const { hostname = "", port = 0 } = options;
      const finished = Promise.reject(hasStopped);
      const addr = { transport: "tcp", hostname, port } as const;
      return { addr, finished, shutdown: () => finished };
    }
    const server = Deno.serve(options);
    let isStopped = false;
    this.stop = () => {
      isStopped = true;
      server.shutdown();
    };
    return {
      addr: server.addr,
      finished: server.finished.then(() => {
        if (isStopped) throw hasStopped;
      }),
      shutdown: () => server.shutdown(),
    };
  };

  /** Starts a server of this runtime. */
  start(): HttpServer {
    return start({}, hello, this.serve);
  }
}

/** Waits until the servers have logged so many lines that match. */
async function loggedLines(pattern: RegExp, count: number): Promise<void> {
  await eventually(
    (found) => found === count,
    () => Promise.resolve(logged.filter((line) => pattern.test(line)).length),
    { everyMs: 1 },
  );
}

Deno.test("HttpServer listens again on its port each time the runtime stops, and logs each loss and recovery once", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  const { address } = server;
  for (let loss = 1; loss <= 2; loss++) {
    // The second attempt succeeds.
    let failures = 1;
    runtime.onListen = () => {
      if (failures-- > 0) throw new Error("too many open files");
    };
    runtime.stop();
    await loggedLines(/ info: listening on \S+ again$/, loss);
    assert.equal(server.address, address);
    const response = await fetch(server.origin);
    assert.equal(await response.text(), "hello");
    assert.match(logged.at(-1) ?? "", new RegExp(` ${address} again$`));
  }
  await server.shutdown();
  assert.equal(logged.length, 4, logged.join("\n"));
  assert.match(logged[2] ?? "", / error: the runtime stopped listening$/);
});

Deno.test("HttpServer logs one loss if the runtime stops again at once", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  runtime.stopping = 3;
  runtime.stop();
  await loggedLines(/again$/, 1);
  assert.equal(runtime.calls, 1 + 3 + 1);
  assert.equal(logged.length, 2, logged.join("\n"));
  await server.shutdown();
});

Deno.test("HttpServer fails if it cannot listen again for a minute, an attempt a second, whatever failed before", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  const problem = new Error("too many open files");
  const tries = LISTEN_AGAIN_MS_MAX / 1_000;
  let failures = tries / 2;
  runtime.onListen = () => {
    if (failures-- > 0) throw problem;
  };
  runtime.stop();
  await loggedLines(/ again$/, 1);
  const { calls } = runtime;
  failures = Infinity;
  const startMs = performance.now();
  runtime.stop();
  await assert.rejects(server.failed, problem);
  assert.equal(runtime.calls, calls + tries);
  assert.equal(logged.length, 3, logged.join("\n"));
  // Timers may be a millisecond early, never more.
  assert.ok(performance.now() - startMs >= tries * (RETRY_MS - 1));
});

Deno.test("shutdown() ends the attempts to listen again", async () => {
  const runtime = new Runtime();
  const server = runtime.start();
  runtime.stop();
  await loggedLines(/ error: the runtime stopped listening$/, 1);
  await server.shutdown();
  await pause(20 * RETRY_MS);
  assert.equal(runtime.calls, 1);
  assert.equal(logged.length, 1, logged.join("\n"));
});
