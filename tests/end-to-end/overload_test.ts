import assert from "node:assert/strict";
import http2 from "node:http2";
import { ERROR } from "../../src/errors.ts";
import { BODY_MS_MAX, CREATES_WAITING_MAX } from "../../src/limits.ts";
import type { NewPlant } from "../../src/plant/plant.ts";
import {
  type Answer,
  Ledger,
  pause,
  residentBytes,
  send,
  Tally,
  toBody,
  together,
  until,
} from "../support/load.ts";
import { Program, StoreLock, TemporaryDirectory, TOKEN } from "../support/program.ts";

const PLANT = { name: "Monstera", tag: "climber" };

/** Far more than the service needs, for machines that do other things too. */
const PATIENCE_MS = 15_000;

/** Creates above those that may wait. */
const EXCESS = 500;

/** As many requests as the service takes on one HTTP/2 connection. */
const STREAMS_MAX = 200;

const FAULT = /fault [0-9a-f-]{36}/;

const encoder = new TextEncoder();

const isStored = ({ status }: Answer) => status === 200;

/** HTTP/2 connections: thousands of requests at a time on few sockets. */
class Crowd implements Disposable {
  readonly #sessions: http2.ClientHttp2Session[];
  #next = 0;

  constructor(origin: string, requests: number) {
    const count = Math.ceil(requests / STREAMS_MAX);
    this.#sessions = Array.from(
      { length: count },
      () => http2.connect(origin),
    );
  }

  /** Sends a create; resolves with its answer. */
  send(newPlant: NewPlant): Promise<Answer> {
    const session = this.#sessions[this.#next++ % this.#sessions.length];
    assert.ok(session !== undefined);
    const body = encoder.encode(toBody(newPlant));
    const stream = session.request({
      ":method": "POST",
      ":path": "/plants",
      "authorization": `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "content-length": String(body.length),
    });
    return new Promise((resolve, reject) => {
      let answer: Answer = { status: 0 };
      let text = "";
      stream.on("response", (headers) => {
        answer = {
          status: Number(headers[":status"]),
          ...(headers["retry-after"] !== undefined &&
            { retryAfter: String(headers["retry-after"]) }),
        };
      });
      stream.setEncoding("utf8");
      stream.on("data", (chunk: string) => text += chunk);
      stream.on("end", () => {
        const error = Number(/"error":(\d+)/.exec(text)?.[1] ?? 0);
        resolve(error === 0 ? answer : { ...answer, error });
      });
      stream.on("error", reject);
      stream.end(body);
    });
  }

  [Symbol.dispose](): void {
    for (const session of this.#sessions) session.destroy();
  }
}

Deno.test("serve: creates above CREATES_WAITING_MAX are 503 with Retry-After at once, and all is normal after it", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  await using program = await Program.start(["--kv", path]);
  assert.ok(isStored(await send(program, { id: 0n, plant: PLANT })));
  const residents = await flood(program, path);

  // Between two collections of garbage the heap is now larger, now smaller, so
  // peaks are compared; 3 KiB that each create left behind would go beyond.
  const early = Math.max(...residents.slice(0, 4));
  const late = Math.max(...residents.slice(4));
  assert.ok(late - early < 128 * 2 ** 20, `${late} bytes after ${early}`);
  assert.doesNotMatch(program.stderr, FAULT);
  assert.equal((await program.stop()).status, 0);
});

/**
 * Sends more creates than may wait while the store takes none, over and over.
 * @returns the memory of the program at each height of it
 */
async function flood(program: Program, path: string): Promise<number[]> {
  const requests = CREATES_WAITING_MAX + EXCESS;
  using crowd = new Crowd(program.origin, requests);

  const residents: number[] = [];
  for (let wave = 1n; residents.length < 8; wave++) {
    assert.ok(wave <= 24n, "no wave came to its height within the deadline");
    const lock = new StoreLock(path);
    const tally = new Tally();
    const excess = Promise.withResolvers<void>();
    const answers = Array.from({ length: requests }, async (_, i) => {
      const id = wave * 1_000_000n + BigInt(i);
      const answer = await crowd.send({ id, plant: PLANT });
      tally.add(answer);
      if (answer.error === ERROR.QUEUE_FULL) {
        assert.equal(answer.retryAfter, "1");
      }
      if (tally.of(ERROR.QUEUE_FULL) === EXCESS) excess.resolve();
      return answer;
    });
    // They are answered while all the others wait.
    await Promise.race([excess.promise, Promise.all(answers)]);
    const atItsHeight = { ...tally.counts };
    const resident = await residentBytes(program);

    lock[Symbol.dispose]();
    await Promise.all(answers);
    // A machine that does much else did not get them all there in time.
    if (tally.of(ERROR.STORE_FAILED) > 0) continue;
    assert.deepEqual(atItsHeight, { [ERROR.QUEUE_FULL]: EXCESS });
    residents.push(resident);
    assert.deepEqual(
      tally.counts,
      { [ERROR.QUEUE_FULL]: EXCESS, 200: CREATES_WAITING_MAX },
    );
    const ids = Array.from(
      { length: 100 },
      (_, i) => -wave * 100n + BigInt(i),
    );
    await together(ids, async (id) => {
      assert.ok(isStored(await send(program, { id, plant: PLANT })));
    });
  }
  return residents;
}

const HEAD = [
  "POST /plants HTTP/1.1",
  "Host: plants.test",
  `Authorization: Bearer ${TOKEN}`,
  "Content-Type: application/json",
].join("\r\n");

/** A connection on which something was sent. */
async function sent(port: number, text: string): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    await connection.write(encoder.encode(text));
  } catch (error) {
    connection.close();
    throw error;
  }
  return connection;
}

/** The next reply, which must fit one read. */
async function received(connection: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(4_096);
  const length = await connection.read(buffer);
  assert.ok(length !== null, "closed without a reply");
  return new TextDecoder().decode(buffer.subarray(0, length));
}

Deno.test("serve: creates go on beside 2,000 half requests, and bodies that never come are 408", async () => {
  using directory = new TemporaryDirectory();
  const path = directory.file("plants.db");
  const ledger = new Ledger();
  await using program = await Program.start(["--kv", path]);
  const { port } = program;
  const halfBody = `${HEAD}\r\nContent-Length: 100\r\n\r\n{"id": 1, "na`;
  const halfChunk = `${HEAD}\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"id"`;
  const halfHead = `${HEAD}\r\nContent-Le`;
  const each = Array.from({ length: 500 }, (_, i) => i);

  const heads: Deno.TcpConn[] = [];
  const bodies: Deno.TcpConn[] = [];
  const startMs = performance.now();
  await together(each, async () => {
    heads.push(await sent(port, halfHead), await sent(port, halfHead));
    bodies.push(await sent(port, halfBody), await sent(port, halfChunk));
  });
  const givenUp = Promise.all(bodies.map(async (connection) => {
    const text = await received(connection);
    return { text, afterMs: performance.now() - startMs };
  }));

  // Others vanish in the midst of a body, while whole creates go on.
  const vanish = together(each, async () => {
    (await sent(port, halfBody)).close();
    (await sent(port, halfChunk)).close();
  }, 8);
  const ids = Array.from({ length: 2_000 }, (_, i) => BigInt(i + 1));
  await together(ids, async (id) => {
    assert.ok(isStored(await ledger.send(program, { id, plant: PLANT })));
  });
  await vanish;

  for (const { text, afterMs } of await givenUp) {
    assert.match(text, /^HTTP\/1\.1 408 /);
    assert.match(text, new RegExp(`"error":${ERROR.BODY_TIMED_OUT}\\b`));
    assert.ok(afterMs < BODY_MS_MAX + PATIENCE_MS, `after ${afterMs} ms`);
  }
  const nothing = await ledger.send(program, { id: 0n, plant: PLANT });
  assert.ok(isStored(nothing));
  for (const connection of [...heads, ...bodies]) connection.close();
  assert.doesNotMatch(program.stderr, FAULT);
  assert.equal((await program.stop()).status, 0);
  assert.equal(await ledger.assertFile(path), ids.length + 1);
});

Deno.test({
  name:
    "serve: a program out of file descriptors stays, and serves again when the connections are gone",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path], {
      openFilesMax: 256,
    });
    const { port } = program;
    assert.ok(isStored(await ledger.send(program, { id: 0n, plant: PLANT })));

    // Silent, with half a head, with half a body, and with a whole request.
    const body = toBody({ id: 1n, plant: PLANT });
    const whole = `${HEAD}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const texts = [
      "",
      `${HEAD}\r\n`,
      `${HEAD}\r\nContent-Length: 100\r\n\r\n{"id"`,
      whole,
    ];
    ledger.sent.set(1n, [PLANT]);
    for (const text of texts) {
      const connections: Deno.TcpConn[] = [];
      await together(Array.from({ length: 1_000 }), async () => {
        try {
          connections.push(await sent(port, text));
        } catch {
          // Refused while nobody listens.
        }
      });
      assert.ok(connections.length > 100, `${connections.length} connected`);
      // Knocking goes on while there is no room.
      for (let i = 0; i < 20; i++) {
        await sent(port, text).then(
          (connection) => connections.push(connection),
          () => {},
        );
        await pause(20);
      }
      for (const connection of connections) connection.close();
      // On a new connection: one of before would say nothing of listening.
      await until(
        (reply) => reply.startsWith("HTTP/1.1 200 "),
        async () => {
          try {
            using connection = await sent(port, whole);
            return await received(connection);
          } catch (error) {
            return String(error);
          }
        },
        { withinMs: PATIENCE_MS },
      );
    }
    assert.doesNotMatch(program.stderr, FAULT);
    assert.equal((await program.stop()).status, 0);
    await ledger.assertFile(path);
  },
});

Deno.test({
  name:
    "serve: a program that was out of file descriptors is back on the address of DENO_SERVE_ADDRESS",
  // Only there is every address from 127.0.0.1 to 127.255.255.254 its own.
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    await using program = await Program.start(["--kv", path], {
      openFilesMax: 60,
      env: { DENO_SERVE_ADDRESS: "tcp:127.0.0.2:0" },
    });
    const { port } = program;
    assert.equal(program.origin, `http://127.0.0.2:${port}`);
    const connections: Deno.Conn[] = [];
    for (let i = 0; i < 100; i++) {
      await Deno.connect({ hostname: "127.0.0.2", port }).then(
        (connection) => connections.push(connection),
        () => {},
      );
    }
    await program.printed(/the runtime gave up listening/);
    for (const connection of connections) connection.close();
    await program.printed(/listening on http:\/\/127\.0\.0\.2:\d+ again/);
    const reply = await program.create({ id: 1, name: "Monstera" });
    await reply.body?.cancel();
    assert.equal(reply.status, 200);
    await program.stop();
  },
});
