import assert from "node:assert/strict";
import {
  keepListening,
  type KeptServer,
  type RuntimeServer,
} from "../../src/http/keep_listening.ts";
import { QUIET_MS } from "../../src/limits.ts";
import { Log } from "../../src/telemetry/log.ts";
import { settled } from "../support/waiting.ts";

/** A server of the runtime that a test loses. */
class FakeServer implements RuntimeServer {
  readonly #finished = Promise.withResolvers<void>();
  readonly finished = this.#finished.promise;
  readonly addr = {
    transport: "tcp",
    hostname: "127.0.0.1",
    port: 8000,
  } as const;
  #isLost = false;
  isShutDown = false;

  constructor(readonly connections: AbortSignal) {
    connections.addEventListener("abort", () => assert.ok(!this.isShutDown));
  }

  async lose(): Promise<void> {
    this.#isLost = true;
    this.#finished.reject(new Error("too many open files"));
    await settled();
  }

  async shutdown(): Promise<void> {
    this.isShutDown = true;
    this.#finished.resolve();
    await settled();
    if (this.#isLost) throw new Error("not listening");
  }
}

/** A server that is kept listening, the time, and what is logged. */
class Kept {
  readonly servers: FakeServer[] = [];
  readonly logged: string[] = [];
  /** Attempts to start a server that fail from now on. */
  failures = 0;
  hasEnded = false;
  readonly #server: KeptServer;
  #nowMs = 0;
  readonly #pauses: { readonly untilMs: number; resolve(): void }[] = [];

  constructor() {
    this.#server = keepListening({
      log: new Log("text", (line) => this.logged.push(line)),
      pause: (ms) =>
        new Promise((resolve) =>
          this.#pauses.push({ untilMs: this.#nowMs + ms, resolve })
        ),
      start: (connections) => {
        if (this.failures-- > 0) throw new Error("no descriptor");
        const server = new FakeServer(connections);
        this.servers.push(server);
        return server;
      },
    });
    this.#server.ended.then(() => this.hasEnded = true);
  }

  /** The server that was started last. */
  get last(): FakeServer {
    const last = this.servers.at(-1);
    assert.ok(last !== undefined);
    return last;
  }

  /** Lets time pass. */
  async after(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    while (this.#nowMs < untilMs) {
      this.#nowMs += 50;
      for (const { untilMs, resolve } of this.#pauses) {
        if (untilMs <= this.#nowMs) resolve();
      }
      await settled();
    }
  }

  shutdown(): Promise<void> {
    return this.#server.shutdown();
  }
}

Deno.test("keepListening() gives running requests some time, closes all connections of a lost server, and starts another one", async () => {
  const kept = new Kept();
  const first = kept.last;
  await kept.after(1_000);
  await first.lose();
  await kept.after(950);
  assert.ok(!first.connections.aborted && !first.isShutDown);
  await kept.after(50);
  assert.ok(first.connections.aborted && first.isShutDown);
  assert.equal(kept.servers.length, 1);
  await kept.after(100);
  assert.equal(kept.servers.length, 2);

  await kept.after(QUIET_MS);
  await kept.shutdown();
  assert.ok(kept.last.isShutDown && !kept.last.connections.aborted);
  assert.ok(kept.hasEnded);
});

Deno.test("keepListening() logs a loss once while it repeats, and the recovery", async () => {
  const kept = new Kept();
  for (let times = 0; times < 2; times++) {
    kept.logged.length = 0;
    for (let losses = 0; losses < 3; losses++) {
      await kept.last.lose();
      await kept.after(1_100 + QUIET_MS - 50);
    }
    assert.equal(kept.logged.length, 1);
    await kept.after(50);
    const [lost = "", recovered = ""] = kept.logged;
    assert.match(
      lost,
      /error: the runtime stopped listening: too many open files: closing its connections$/,
    );
    assert.match(recovered, /info: listening again$/);
    assert.equal(kept.logged.length, 2);
  }
  assert.equal(kept.servers.length, 7);
});

Deno.test("keepListening() tries for 10 s to start a server, and then ends", async () => {
  const kept = new Kept();
  kept.failures = 99;
  await kept.last.lose();
  await kept.after(10_950);
  assert.equal(kept.servers.length, 1);
  await kept.after(50);
  assert.equal(kept.servers.length, 2);

  kept.failures = Infinity;
  await kept.last.lose();
  await kept.after(10_950);
  assert.ok(!kept.hasEnded);
  await kept.after(50);
  assert.ok(kept.hasEnded);
});

for (const lostMs of [0, 950, 1_000, 1_050]) {
  Deno.test(`keepListening() starts no server if it is shut down ${lostMs} ms after a loss`, async () => {
    const kept = new Kept();
    await kept.last.lose();
    await kept.after(lostMs);
    await kept.shutdown();
    const isAborted = lostMs >= 1_000;
    assert.equal(kept.last.connections.aborted, isAborted);
    await kept.after(20_000);
    assert.equal(kept.last.connections.aborted, isAborted);
    assert.ok(kept.last.isShutDown && kept.hasEnded);
    assert.equal(kept.servers.length, 1);
    assert.equal(kept.logged.length, 1);
  });
}

Deno.test("keepListening() logs no recovery after a shutdown", async () => {
  const kept = new Kept();
  await kept.last.lose();
  await kept.after(1_100);
  assert.equal(kept.servers.length, 2);
  await kept.shutdown();
  assert.ok(kept.hasEnded);
  await kept.after(QUIET_MS);
  assert.equal(kept.logged.length, 1);
});

Deno.test("keepListening() throws the error of the first start", () => {
  const error = new Error("Address already in use");
  const options = {
    log: new Log("text", assert.fail),
    start() {
      throw error;
    },
  };
  assert.throws(() => keepListening(options), error);
});
