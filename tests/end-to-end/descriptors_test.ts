/** A process without file descriptors: it closes connections, and listens again. */
import assert from "node:assert/strict";
import { StoreLock } from "../support/accidents.ts";
import { type Answer, isStored, sendCreate } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { newPlants, WHOLE } from "../support/plants.ts";
import { assertSucceeded, occurrences, Program } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate } from "../support/tools.ts";
import { eventually, inParallel, pause } from "../support/waiting.ts";
import { createBytes } from "../support/wire.ts";

/** A limit of file descriptors, for a shell that starts the program. */
const FEW_FILES = 'ulimit -n 256; exec "$0" "$@"';

/** More connections than that. */
const CONNECTIONS = 300;

/** Pause before a connection that was refused is tried again. */
const CONNECT_RETRY_MS = 20;

/**
 * Time for a create to succeed again. Less than a body may take: the service does not
 * wait for those that never arrive.
 */
const AGAIN_MS_MAX = 9_000;

const LOST =
  /error: the runtime stopped listening: .+: closing its connections\n/;
const AGAIN = /info: listening again\n/;

const NO_TOKEN = { without: ["authorization"] };
const WRONG_TOKEN = { headers: ["authorization: Bearer wrong"] };

/** What connections send before they stay silent. */
const PARTS: Readonly<Record<string, Uint8Array>> = {
  "nothing": new Uint8Array(),
  "half a header": createBytes("{}").subarray(0, 60),
  "no body": createBytes("{}").subarray(0, -2),
  "no token and no body": createBytes("{}", NO_TOKEN).subarray(0, -2),
  "a wrong token and no body": createBytes("{}", WRONG_TOKEN).subarray(0, -2),
  "a whole request": createBytes("", { line: "GET /livez HTTP/1.1" }),
};

/** A service with few descriptors, and a directory for its files. */
interface Started {
  readonly program: Program;
  readonly store: string;
  /** Opens a connection, after the handshake of TLS. */
  readonly connect: () => Promise<Deno.Conn>;
  /** Creates a plant on a new connection. */
  readonly create: (id: bigint) => Promise<Answer>;
}

async function start(
  scheme: string,
  directory: TemporaryDirectory,
): Promise<Started & AsyncDisposable> {
  const store = directory.file("plants.db");
  const flags: string[] = [];
  const caCerts: string[] = [];
  if (scheme === "https") {
    const { cert, key } = await makeCertificate(directory, "plants");
    flags.push("--tls-cert", cert, "--tls-key", key);
    caCerts.push(Deno.readTextFileSync(cert));
  }
  const options = { flags, shell: FEW_FILES };
  const program = await Program.start(store, options);
  const { origin, port } = program;
  return {
    program,
    store,
    async connect() {
      if (scheme === "http") return await Deno.connect({ port });
      const to = { hostname: "127.0.0.1", port, caCerts };
      const connection = await Deno.connectTls(to);
      await connection.handshake();
      return connection;
    },
    async create(id) {
      using httpClient = Deno.createHttpClient({ caCerts });
      return await sendCreate({ origin, httpClient }, { id, plant: WHOLE });
    },
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}

/** Opens connections, more than the service has descriptors. */
async function exhaust(
  connect: () => Promise<Deno.Conn>,
  bytes: Uint8Array,
): Promise<Deno.Conn[]> {
  const connections: Deno.Conn[] = [];
  const untilMs = performance.now() + AGAIN_MS_MAX;
  await inParallel(Array.from({ length: CONNECTIONS }), async () => {
    while (performance.now() < untilMs) {
      // Refused while nothing listens.
      const connection = await connect().catch(() => undefined);
      if (connection !== undefined) {
        connections.push(connection);
        await connection.write(bytes).catch(() => {});
        return;
      }
      await pause(CONNECT_RETRY_MS);
    }
  }, 16);
  return connections;
}

for (const scheme of ["http", "https"]) {
  Deno.test({
    name:
      `a service over ${scheme} without file descriptors closes connections that stay silent, serves again, and stops`,
    ignore: scheme === "https" && isMissing("openssl"),
    async fn() {
      using directory = new TemporaryDirectory();
      await using started = await start(scheme, directory);
      const { program, connect, create } = started;
      const all: Deno.Conn[] = [];
      let id = 0n;
      for (let wave = 1; wave <= 2; wave++) {
        const from = program.stderr.length;
        for (const [what, bytes] of Object.entries(PARTS)) {
          all.push(...await exhaust(connect, bytes));
          const startMs = performance.now();
          id++;
          await eventually(() => create(id), isStored);
          const ms = Math.round(performance.now() - startMs);
          assert.ok(ms < AGAIN_MS_MAX, `${ms} ms after ${what}`);
        }
        await program.printed(AGAIN, from);
      }
      all.push(...await exhaust(connect, new Uint8Array()));
      assertSucceeded(await program.stop());
      for (const connection of all) connection.close();
      const { stderr } = program;
      assert.doesNotMatch(stderr, /internal error/);
      const losses = occurrences(stderr, LOST);
      assert.ok(losses >= 1 && losses <= 13, stderr);
      const recoveries = occurrences(stderr, AGAIN);
      assert.ok([0, 1].includes(losses - recoveries), stderr);
    },
  });
}

Deno.test("a create that is running when the descriptors run out has its reply", async () => {
  using directory = new TemporaryDirectory();
  await using started = await start("http", directory);
  const { program, store, connect, create } = started;
  const running = "plant_store_creates_running";
  using lock = new StoreLock(store);
  const replies = newPlants([1n, 2n]).map(({ id }) => create(id));
  await eventually(() => program.metric(running), (count) => count === 2);
  const released = program.printed(LOST).then(() => lock.release());
  const connections = await exhaust(connect, new Uint8Array());
  await released;
  for (const reply of replies) assert.deepEqual(await reply, { status: 200 });
  await eventually(() => create(3n), isStored);
  for (const connection of connections) connection.close();
});

/** The start of a handshake. The runtime closes no connection in a handshake. */
const HELLO = Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00);

Deno.test({
  name:
    "a service whose descriptors have handshakes that are not completed serves again when they end, or else fails so that it can be restarted",
  ignore: isMissing("openssl"),
  async fn() {
    for (const isEnding of [true, false]) {
      using directory = new TemporaryDirectory();
      await using started = await start("https", directory);
      const { program, create, store } = started;
      assert.ok(isStored(await create(1n)));
      const connections: Deno.Conn[] = [];
      const opening = inParallel(Array.from({ length: 300 }), async () => {
        const { port } = program;
        const connection = await Deno.connect({ port }).catch(() => undefined);
        if (connection === undefined) return;
        connections.push(connection);
        await connection.write(HELLO).catch(() => {});
      });
      await Promise.all([opening, program.printed(LOST)]);
      if (isEnding) {
        for (const connection of connections) connection.close();
        await eventually(() => create(2n), isStored);
        await program.printed(AGAIN);
        continue;
      }
      const { status, stderr } = await program.ended();
      for (const connection of connections) connection.close();
      assert.equal(status, 1, stderr);
      assert.match(
        stderr,
        /error: no file descriptor is free .*\n.*draining\n.*stopped\n$/,
      );
      await using again = await Program.start(store);
      const reply = await sendCreate(again, { id: 1n, plant: WHOLE });
      assert.ok(isStored(reply));
    }
  },
});
