/** A process without file descriptors: it continues, and listens again. */
import assert from "node:assert/strict";
import { eventually, inParallel, PLANT, toBody } from "../support/load.ts";
import { needs } from "../support/needs.ts";
import { assertSucceeded, Program, TOKEN } from "../support/program.ts";
import { test } from "../support/tests.ts";
import { makeCertificate, runTool } from "../support/tools.ts";
import { exportLines } from "../support/transfer.ts";
import { exchange, request } from "../support/wire.ts";

/** Connections that stay open when the others end. */
const STAYING = 5;

/** A limit of file descriptors, for a shell that starts the program. */
const FEW_FILES = 'ulimit -n 256; exec "$0" "$@"';

const LOST = /the runtime stopped listening/;
const AGAIN = /listening on https?:\S+ again/;
const INTERNAL_ERROR = /internal error/;

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

/**
 * Exhausts the descriptors of a service and closes most connections, for each of
 * the bytes to send on them; then the service must store a create again.
 * @param create sends a create on a new connection: an old one does not prove
 * that the service listens
 */
async function assertServesAgain(
  program: Program,
  parts: readonly Uint8Array[],
  create: () => Promise<boolean>,
): Promise<void> {
  assert.ok(await create());
  for (const bytes of parts) {
    const from = program.stderr.length;
    const connections = await exhaust(program, bytes);
    const staying = connections.splice(0, STAYING);
    for (const connection of connections) connection.close();
    await eventually((isCreated) => isCreated, create);
    await program.printed(AGAIN, from);
    for (const connection of staying) connection.close();
  }
  assert.match(program.stderr, LOST);
  assert.doesNotMatch(program.stderr, INTERNAL_ERROR);
  assertSucceeded(await program.stop());
}

test("a service without file descriptors continues, and serves again when most connections end", async ({ store, start }) => {
  await using program = await start([], { shell: FEW_FILES });
  const body = toBody({ id: 1n, plant: PLANT });
  const create = request(body);
  // Silent, and in the middle of a body.
  const parts = [new Uint8Array(), create.subarray(0, -1)];
  await assertServesAgain(program, parts, () =>
    exchange(program.port, create)
      .then((reply) => reply?.status === 200, () => false));
  assert.deepEqual(await exportLines(store), [body]);
});

needs("openssl", "curl").test(
  "a service with TLS and without file descriptors serves again when most connections end",
  async ({ directory, start }) => {
    const { cert, key } = await makeCertificate(directory, "plants");
    await using program = await start(["--tls-cert", cert, "--tls-key", key], {
      shell: FEW_FILES,
    });
    const { origin } = program;
    assert.match(origin, /^https:/);
    // In the middle of a handshake.
    const part = Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00);
    await assertServesAgain(program, [part], async () => {
      const output = await runTool("curl", [
        ...["-sS", "--cacert", cert, "-w", "%{http_code}"],
        ...["-H", `Authorization: Bearer ${TOKEN}`],
        ...["-H", "Content-Type: application/json"],
        ...["-d", toBody({ id: 1n, plant: PLANT })],
        `${origin}/plants`,
      ]).catch(String);
      return /\}200$/.test(output);
    });
  },
);
