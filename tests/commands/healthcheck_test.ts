import assert from "node:assert/strict";
import { checkHealth } from "../../src/commands/healthcheck.ts";
import { isMissing } from "../support/needs.ts";
import { assertOneLine, runProgram } from "../support/program.ts";
import { settings } from "../support/settings.ts";

/** Asserts that a health check with these flags fails, and with which line. */
async function assertFails(
  flags: Record<string, string>,
  message: string | RegExp,
  variables: Record<string, string> = {},
): Promise<void> {
  const expected = { name: "OperatorError", message, exitStatus: 1 };
  await assert.rejects(checkHealth(settings(flags, variables)), expected);
}

/** Answers every request with a status, and records the requests. */
function serve(status: number, hostname = "127.0.0.1") {
  const requests: string[] = [];
  const server = Deno.serve(
    { hostname, port: 0, onListen: () => {} },
    ({ method, url }) => {
      requests.push(`${method} ${new URL(url).pathname}`);
      return Response.json({}, { status });
    },
  );
  return {
    requests,
    port: `${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

for (
  const [local, all, ...tools] of [
    ["127.0.0.1", "0.0.0.0"],
    ["::1", "::", "IPv6"],
  ] as const
) {
  Deno.test({
    name:
      `checkHealth() requests /readyz below the path of the base URL, at ${local} also for ${all}`,
    ignore: isMissing(...tools),
    async fn() {
      await using server = serve(200, local);
      const { port } = server;
      for (const host of [local, all]) {
        assert.equal(await checkHealth(settings({ host, port })), 0);
        const flags = { host, port, "base-url": "https://plants.example/api/" };
        assert.equal(await checkHealth(settings(flags)), 0);
        const requests = server.requests.splice(0);
        assert.deepEqual(requests, ["GET /readyz", "GET /api/readyz"]);
      }
    },
  });
}

Deno.test("checkHealth() fails unless the service answers 200", async () => {
  for (const status of [503, 404, 201]) {
    await using server = serve(status);
    const { port } = server;
    const answers = `127.0.0.1 port ${port} answers`;
    const see = "see the log of the service, and check";
    await assertFails(
      { port },
      `${answers} /readyz with ${status}: ${see} --base-url`,
    );
    const BASE_URL = "https://plants.example/api";
    const message = `${answers} /api/readyz with ${status}: ${see} BASE_URL`;
    await assertFails({ port }, message, { BASE_URL });
  }
});

Deno.test("healthcheck asks the service itself, whatever proxy the variables name", async () => {
  await using service = serve(503);
  await using proxy = serve(200);
  const url = `http://127.0.0.1:${proxy.port}`;
  const env = {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: url,
    HTTPS_PROXY: url,
    // After half a second, Deno itself would ask for its latest version.
    DENO_NO_UPDATE_CHECK: "1",
  };
  const args = ["healthcheck", "--port", service.port];
  const plain = await runProgram(args, { env });
  assertOneLine(plain, 1, / answers \/readyz with 503: /);
  // The service does not speak TLS.
  const tls = await runProgram([...args, "--tls-cert", "/none"], { env });
  assertOneLine(tls, 1, /: no answer from /);
  assert.deepEqual(proxy.requests, []);
});

/** Answers one connection with some bytes while a function runs. */
async function answering(
  bytes: string,
  run: (port: string) => Promise<void>,
): Promise<void> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept().then(async (connection) => {
    await connection.read(new Uint8Array(10_000));
    await connection.write(new TextEncoder().encode(bytes));
    return connection;
  });
  await run(`${listener.addr.port}`);
  (await accepted).close();
}

Deno.test("checkHealth() fails if nothing listens, and names what was written", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const where = `127\\.0\\.0\\.1 port ${port}: connect ECONNREFUSED`;
  const given = { HOST: "127.0.0.1", PORT: `${port}`, TLS_CERT: "" };
  const check = "check HOST, PORT, --tls-cert";
  await assertFails(
    {},
    new RegExp(`^no answer from ${where}.*: ${check}$`),
    given,
  );
});

Deno.test("checkHealth() fails if no complete reply arrives within HEALTHCHECK_MS_MAX, and does not wait for its body", async () => {
  const begun = "HTTP/1.1 ";
  await answering(begun, (port) => {
    const why = "The operation was aborted due to timeout";
    const where = `127.0.0.1 port ${port}`;
    const check = "check --host, --port, --tls-cert";
    return assertFails({ port }, `no answer from ${where}: ${why}: ${check}`);
  });
  const headers = `${begun}200 OK\r\ncontent-length: 100\r\n\r\n{`;
  await answering(headers, async (port) => {
    assert.equal(await checkHealth(settings({ port })), 0);
  });
});
