import assert from "node:assert/strict";
import {
  type Handle,
  keepListening,
  type RuntimeServer,
} from "../../src/http/keep_listening.ts";
import { Log } from "../../src/telemetry/log.ts";
import { replaced } from "../support/replaced.ts";
import { eventually, pause } from "../support/waiting.ts";

/** A server of the runtime that a test loses. */
class FakeServer implements RuntimeServer {
  readonly #finished = Promise.withResolvers<void>();
  readonly finished = this.#finished.promise;
  isShutDown = false;

  constructor(readonly handle: Handle, readonly signal: AbortSignal) {}

  lose(): void {
    this.#finished.reject(new Error("too many open files"));
  }

  shutdown(): Promise<void> {
    this.isShutDown = true;
    this.#finished.resolve();
    return Promise.resolve();
  }

  async get(): Promise<string | null> {
    const { headers } = await this.handle(new Request("http://plants.test"));
    return headers.get("connection");
  }
}

/** Servers that are kept listening, and what is logged about them. */
class Kept {
  readonly servers: FakeServer[] = [];
  readonly logged: string[] = [];
  /** The replies that wait. */
  readonly replies: (() => void)[] = [];
  /** Attempts to listen that fail from now on. */
  failures = 0;
  isBusy = false;
  readonly stuck: Promise<void>;
  readonly shutdown: () => Promise<void>;

  constructor() {
    const log = new Log("text", (line) => this.logged.push(line));
    const { stuck, shutdown } = keepListening(log, {
      handle: () =>
        new Promise<Response>((resolve) =>
          this.replies.push(() => resolve(new Response()))
        ),
      isBusy: () => this.isBusy,
      start: (handle, signal) => {
        if (this.failures-- > 0) throw new Error("no descriptor");
        const server = new FakeServer(handle, signal);
        this.servers.push(server);
        return server;
      },
    });
    this.stuck = stuck;
    this.shutdown = shutdown;
  }

  /** Returns the server that is current when there are so many. */
  async server(count: number): Promise<FakeServer> {
    await eventually(() => this.servers.length >= count);
    const server = this.servers[count - 1];
    assert.ok(server !== undefined);
    return server;
  }
}

Deno.test("keepListening() closes the connections of a lost server when its running requests have their replies, and starts another one", async () => {
  const kept = new Kept();
  const first = await kept.server(1);
  kept.isBusy = true;
  const running = first.get();
  first.lose();
  await pause(200);
  assert.ok(!first.signal.aborted);
  assert.equal(kept.servers.length, 1);
  const later = first.get();
  for (const reply of kept.replies) reply();
  assert.equal(await running, null);
  assert.equal(await later, "close");
  kept.isBusy = false;

  const second = await kept.server(2);
  assert.ok(first.signal.aborted && first.isShutDown);
  const ofSecond = second.get();
  for (const reply of kept.replies) reply();
  assert.equal(await ofSecond, null);
  assert.ok(!second.signal.aborted);
  await kept.shutdown();
  assert.ok(second.isShutDown && !second.signal.aborted);
});

Deno.test("keepListening() does not wait for a reply that takes long", async () => {
  const kept = new Kept();
  const first = await kept.server(1);
  kept.isBusy = true;
  first.lose();
  await kept.server(2);
  assert.ok(first.signal.aborted);
  await kept.shutdown();
});

Deno.test("keepListening() logs a loss once while it repeats, and the recovery", async () => {
  const kept = new Kept();
  kept.failures = 0;
  for (let i = 1; i <= 3; i++) {
    (await kept.server(i)).lose();
    kept.failures = 1;
  }
  await kept.server(4);
  assert.equal(kept.logged.length, 1);
  await eventually(() => kept.logged.length > 1);
  const [lost = "", recovered = ""] = kept.logged;
  assert.match(
    lost,
    /error: the runtime stopped listening: too many open files: closing its connections$/,
  );
  assert.match(recovered, /info: listening again$/);
  await kept.shutdown();
});

Deno.test("keepListening() starts no server without descriptors, and is stuck after some seconds", async () => {
  const kept = new Kept();
  const first = await kept.server(1);
  let isStuck = false;
  kept.stuck.then(() => isStuck = true);
  {
    using _ = replaced(Deno, "listen", () => {
      throw new Error("Too many open files (os error 24)");
    });
    first.lose();
    await pause(5_000);
    assert.ok(first.signal.aborted && !isStuck);
    await eventually(() => isStuck);
    assert.equal(kept.servers.length, 1);
  }
  await kept.server(2);
  await kept.shutdown();
});

Deno.test("keepListening() aborts no server after a shutdown, and starts none", async () => {
  const kept = new Kept();
  const first = await kept.server(1);
  kept.isBusy = true;
  first.lose();
  await pause(50);
  await kept.shutdown();
  await pause(1_500);
  assert.ok(!first.signal.aborted && first.isShutDown);
  assert.equal(kept.servers.length, 1);
});
