import assert from "node:assert/strict";
import { checkHealth } from "../../src/commands/healthcheck.ts";
import type { Address } from "../../src/config/settings.ts";
import { settings } from "../support/settings.ts";

const ADVICE = ": check --host, --port and --tls-cert";

/** Returns the address of a service on a port of this machine. */
function on(port: number, rest: Partial<Address> = {}): Address {
  return { ...settings().address(), port, ...rest };
}

/** Asserts that a health check fails, and with which line and status. */
async function assertFails(
  address: Address,
  message: string | RegExp,
  exitStatus = 1,
): Promise<void> {
  const expected = { name: "OperatorError", message, exitStatus };
  await assert.rejects(checkHealth(address), expected);
}

/** Answers every request with a status, and records the requests. */
function serve(status: number, hostname = "127.0.0.1") {
  const requests: string[] = [];
  const server = Deno.serve(
    { hostname, port: 0, onListen: () => {} },
    ({ method, url }) => {
      requests.push(`${method} ${url}`);
      return Response.json({}, { status });
    },
  );
  return {
    requests,
    port: server.addr.port,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("checkHealth() requests /readyz below the path of the base URL, locally for all addresses", async () => {
  for (
    const [hostname, all, authority] of [
      ["127.0.0.1", "0.0.0.0", "127.0.0.1"],
      ["::1", "::", "[::1]"],
    ] as const
  ) {
    await using server = serve(200, hostname);
    for (const [host, path] of [[hostname, ""], [all, "/api"]] as const) {
      const baseUrl = `https://plants.example${path}`;
      const address = on(server.port, { host, baseUrl });
      assert.equal(await checkHealth(address), 0);
      const url = `http://${authority}:${server.port}${path}/readyz`;
      assert.equal(server.requests.pop(), `GET ${url}`);
    }
  }
});

Deno.test("checkHealth() fails unless the service answers 200", async () => {
  for (
    const [status, advice] of [
      [503, "see the log of the service"],
      [404, "give the service's --base-url"],
      [201, "see the log of the service"],
    ] as const
  ) {
    await using server = serve(status);
    const where = `127.0.0.1 port ${server.port}`;
    const message = `not ready: ${where} answers /readyz with ${status}`;
    await assertFails(on(server.port), `${message}: ${advice}`);
  }
});

Deno.test("checkHealth() refuses port 0", async () => {
  const text = "--port: 0 does not name a port: give the port of the service";
  await assertFails(on(0), text, 2);
});

/** Checks the health of a listener that sends some bytes. */
async function checkAgainst(
  answer: string,
  check: (port: number) => Promise<void>,
  { closes = false } = {},
): Promise<void> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const answering = listener.accept().then(async (connection) => {
    await connection.read(new Uint8Array(10_000));
    await connection.write(new TextEncoder().encode(answer));
    if (closes) connection.close();
    return connection;
  });
  await check(listener.addr.port);
  const connection = await answering;
  if (!closes) connection.close();
}

Deno.test("checkHealth() fails if the other side only closes the connection, or speaks no TLS", async () => {
  for (
    const [answer, isTls] of [
      ["", false],
      ["HTTP/1.1 200 OK\r\n\r\n", true],
    ] as const
  ) {
    await checkAgainst(answer, async (port) => {
      const where = `^no answer from 127\\.0\\.0\\.1 port ${port}: `;
      const message = new RegExp(`${where}\\S.*${ADVICE}$`);
      await assertFails(on(port, { isTls }), message);
    }, { closes: !isTls });
  }
});

Deno.test("checkHealth() fails if nothing listens, and names the variables of the address", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const address = settings({}, { PORT: `${port}`, TLS_CERT: "" }).address();
  await assertFails(
    address,
    /: connect ECONNREFUSED .*: check --host, PORT and --tls-cert$/,
  );
});

Deno.test("checkHealth() gives up if no complete reply arrives within HEALTHCHECK_MS_MAX, and does not wait for its body", async () => {
  const begun = "HTTP/1.1 ";
  await checkAgainst(begun, async (port) => {
    const where = `no answer from 127.0.0.1 port ${port}`;
    await assertFails(on(port), `${where}: no reply within 3 s${ADVICE}`);
  });
  const headers = `${begun}200 OK\r\ncontent-length: 100\r\n\r\n{`;
  await checkAgainst(headers, async (port) => {
    assert.equal(await checkHealth(on(port)), 0);
  });
});
