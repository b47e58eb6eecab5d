/** A process without file descriptors: it continues, and listens again. */
import assert from "node:assert/strict";
import { isStored, sendCreate } from "../support/ledger.ts";
import { isMissing } from "../support/needs.ts";
import { WHOLE } from "../support/plants.ts";
import { assertSucceeded, Program } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { makeCertificate } from "../support/tools.ts";
import { eventually, inParallel } from "../support/waiting.ts";
import { createBytes } from "../support/wire.ts";

/** Connections that stay open when the others end. */
const STAYING = 5;

/** A limit of file descriptors, for a shell that starts the program. */
const FEW_FILES = 'ulimit -n 256; exec "$0" "$@"';

/** Opens connections until the service has no descriptors left. */
async function exhaust(
  { port }: Program,
  bytes: Uint8Array,
): Promise<Deno.TcpConn[]> {
  const connections: Deno.TcpConn[] = [];
  const open = async () => {
    // Refused while nothing listens.
    const connection = await Deno.connect({ port }).catch(() => undefined);
    if (connection === undefined) return;
    connections.push(connection);
    await connection.write(bytes).catch(() => {});
  };
  await inParallel(Array.from({ length: 1_000 }), open);
  assert.ok(connections.length > 100, `${connections.length} connected`);
  // Connections continue to arrive meanwhile.
  for (let i = 0; i < 20; i++) await open();
  return connections;
}

/** Silent connections, and those in the middle of a body or of a handshake. */
const PARTS = {
  http: [new Uint8Array(), createBytes("{}").subarray(0, -1)],
  https: [Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00)],
} as const;

for (const scheme of ["http", "https"] as const) {
  Deno.test({
    name:
      `a service over ${scheme} without file descriptors continues, serves again when most connections end, and stops`,
    ignore: scheme === "https" && isMissing("openssl"),
    async fn() {
      using directory = new TemporaryDirectory();
      const store = directory.file("plants.db");
      const flags: string[] = [];
      const caCerts: string[] = [];
      if (scheme === "https") {
        const { cert, key } = await makeCertificate(directory, "plants");
        flags.push("--tls-cert", cert, "--tls-key", key);
        caCerts.push(Deno.readTextFileSync(cert));
      }
      const options = { flags, shell: FEW_FILES };
      await using program = await Program.start(store, options);
      assert.equal(new URL(program.origin).protocol, `${scheme}:`);
      const create = async () => {
        // A new connection: an old one does not prove that the service listens.
        using httpClient = Deno.createHttpClient({ caCerts });
        const target = { origin: program.origin, httpClient };
        return await sendCreate(target, { id: 1n, plant: WHOLE });
      };
      assert.ok(isStored(await create()));
      for (const bytes of PARTS[scheme]) {
        const from = program.stderr.length;
        const connections = await exhaust(program, bytes);
        const staying = connections.splice(0, STAYING);
        await program.printed(/the runtime stopped listening: .+\n/, from);
        for (const connection of connections) connection.close();
        await eventually(create, isStored);
        await program.printed(/listening on https?:\S+ again\n/, from);
        for (const connection of staying) connection.close();
      }
      const from = program.stderr.length;
      const connections = await exhaust(program, new Uint8Array());
      await program.printed(/the runtime stopped listening: .+\n/, from);
      assertSucceeded(await program.stop());
      for (const connection of connections) connection.close();
      assert.doesNotMatch(program.stderr, /internal error/);
    },
  });
}
