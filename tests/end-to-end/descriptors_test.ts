/** A process without file descriptors: it continues, and listens again. */
import assert from "node:assert/strict";
import {
  eventually,
  inParallel,
  Ledger,
  PLANT,
  toBody,
} from "../support/load.ts";
import { has, Program, TOKEN } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_OPENSSL, makeCertificate, runTool } from "../support/tools.ts";
import { exchange, request } from "../support/wire.ts";

const HAS_CURL = await has("curl", "--version");

/**
 * Connections that stay open when the others end. Before Deno 2.8, the runtime
 * reports that it does not listen only when the last one has ended.
 */
const STAYING = /^2\.[67]\./.test(Deno.version.deno) ? 0 : 5;

const LOST = /the runtime stopped listening/;
const AGAIN = /listening on https?:\S+ again/;
const INTERNAL_ERROR = /internal error/;

const decoder = new TextDecoder();

/** Opens a connection and sends bytes on it. */
async function connectAndSend(
  port: number,
  bytes: Uint8Array,
): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    await connection.write(bytes);
  } catch (error) {
    connection.close();
    throw error;
  }
  return connection;
}

/** Opens connections until the service has no descriptors left. */
async function exhaust(
  program: Program,
  bytes: Uint8Array,
): Promise<Deno.TcpConn[]> {
  const connections: Deno.TcpConn[] = [];
  const open = () =>
    connectAndSend(program.port, bytes).then(
      (connection) => connections.push(connection),
      // Refused while nothing listens.
      () => {},
    );
  await inParallel(Array.from({ length: 1_000 }), open);
  assert.ok(connections.length > 100, `${connections.length} connected`);
  // Connections continue to arrive meanwhile.
  for (let i = 0; i < 20; i++) await open();
  return connections;
}

Deno.test({
  name:
    "a service without file descriptors continues, and serves again when most connections end",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const ledger = new Ledger();
    await using program = await Program.start(["--kv", path], {
      openFilesMax: 256,
    });
    const create = request(toBody({ id: 1n, plant: PLANT }));
    // Not with fetch(), which would keep its connection open.
    const first = await ledger.record(
      { id: 1n, plant: PLANT },
      async () => await exchange(program.port, create) ?? { status: 0 },
    );
    assert.equal(first.status, 200);
    // Silent, and in the middle of a body.
    for (const bytes of [new Uint8Array(), create.subarray(0, -1)]) {
      const from = program.stderr.length;
      const connections = await exhaust(program, bytes);
      const staying = connections.splice(0, STAYING);
      for (const connection of connections) connection.close();
      // On a new connection: an old one does not prove that it listens.
      await eventually(
        (reply) => reply.startsWith("HTTP/1.1 200 "),
        async () => {
          try {
            using connection = await connectAndSend(program.port, create);
            const buffer = new Uint8Array(4_096);
            const length = await connection.read(buffer) ?? 0;
            return decoder.decode(buffer.subarray(0, length));
          } catch (error) {
            return String(error);
          }
        },
      );
      await program.printed(AGAIN, from);
      for (const connection of staying) connection.close();
    }
    assert.match(program.stderr, LOST);
    assert.doesNotMatch(program.stderr, INTERNAL_ERROR);
    assert.equal((await program.stop()).status, 0);
    await ledger.assertFile(path);
  },
});

Deno.test({
  name:
    "a service with TLS and without file descriptors serves again when most connections end",
  ignore: Deno.build.os === "windows" || !HAS_OPENSSL || !HAS_CURL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const path = directory.file("plants.db");
    const { cert, key } = await makeCertificate(directory, "plants");
    await using program = await Program.start(
      ["--kv", path, "--tls-cert", cert, "--tls-key", key],
      { openFilesMax: 256 },
    );
    const { origin } = program;
    assert.match(origin, /^https:/);
    // Each create is sent on a new connection.
    const create = (id: number): Promise<string> =>
      runTool("curl", [
        ...["-sS", "--cacert", cert, "-w", "%{http_code}"],
        ...["-H", `Authorization: Bearer ${TOKEN}`],
        ...["-H", "Content-Type: application/json"],
        ...["-d", toBody({ id: BigInt(id), plant: PLANT })],
        `${origin}/plants`,
      ]).catch(String);
    const isCreated = (output: string) => /\}200$/.test(output);
    const first = await create(0);
    assert.ok(isCreated(first), first);

    // In the middle of a handshake.
    const part = Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00);
    const connections = await exhaust(program, part);
    const staying = connections.splice(0, STAYING);
    for (const connection of connections) connection.close();
    await eventually(isCreated, () => create(1));
    await program.printed(AGAIN);
    for (const connection of staying) connection.close();
    assert.match(program.stderr, LOST);
    assert.doesNotMatch(program.stderr, INTERNAL_ERROR);
    assert.equal((await program.stop()).status, 0);
  },
});
