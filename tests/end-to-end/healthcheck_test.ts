import assert from "node:assert/strict";
import { HEALTHCHECK_MS_MAX } from "../../src/limits.ts";
import { assertOneLine, Program, runProgram } from "../support/program.ts";
import { TemporaryDirectory } from "../support/temporary.ts";

const HEALTHY = { status: 0, signal: null, stdout: "", stderr: "" };

/** Answers every request with a status, and records the requested paths. */
function listen(status: number) {
  const asked: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    ({ method, url }) => {
      asked.push(`${method} ${url.slice(url.indexOf("/", 8))}`);
      return Response.json({}, { status });
    },
  );
  return {
    asked,
    port: String(server.addr.port),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("healthcheck succeeds without output if the service is ready", async () => {
  using directory = new TemporaryDirectory();
  await using program = await Program.start(["--kv", directory.file("p.db")]);
  const args = ["healthcheck", "--port", String(program.port)];
  assert.deepEqual(await runProgram(args), HEALTHY);
});

Deno.test("healthcheck requests /readyz below the path of the base URL", async () => {
  await using server = listen(200);
  for (const url of ["https://plants.example", "https://plants.example/api/"]) {
    const env = { PORT: server.port, BASE_URL: url };
    assert.deepEqual(await runProgram(["healthcheck"], { env }), HEALTHY);
  }
  assert.deepEqual(server.asked, ["GET /readyz", "GET /api/readyz"]);
});

Deno.test("healthcheck uses the loopback address if the service listens on all addresses", async () => {
  await using server = listen(200);
  const args = ["healthcheck", "--host", "0.0.0.0", "--port", server.port];
  assert.deepEqual(await runProgram(args), HEALTHY);
});

for (
  const [status, advice] of [
    [503, "see the log of the service"],
    [404, "give the service's --base-url"],
    [302, "see the log of the service"],
    [201, "see the log of the service"],
  ] as const
) {
  Deno.test(`healthcheck fails with one line if the service answers ${status}`, async () => {
    await using server = listen(status);
    const ended = await runProgram(["healthcheck", "--port", server.port]);
    assertOneLine(
      ended,
      1,
      `not ready: 127.0.0.1 port ${server.port} answers /readyz with ` +
        `${status}: ${advice}`,
    );
  });
}

Deno.test("healthcheck fails with one line if nothing listens", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const ended = await runProgram(["healthcheck", "--port", String(port)]);
  assertOneLine(
    ended,
    1,
    new RegExp(`no answer from 127\\.0\\.0\\.1 port ${port}: `),
  );
});

Deno.test("healthcheck refuses port 0 with one line", async () => {
  assertOneLine(
    await runProgram(["healthcheck", "--port", "0"]),
    2,
    "--port 0 does not name a port: give the port of the service",
  );
});

/** Runs a health check of a listener that answers or greets with some bytes. */
async function checkAgainst(
  answer: string,
  { closes = false, greets = false, isTls = false },
) {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const accepting = listener.accept().then(async (connection) => {
    if (!greets) await connection.read(new Uint8Array(10_000));
    await connection.write(new TextEncoder().encode(answer));
    if (closes) connection.close();
    return connection;
  });
  const startMs = performance.now();
  const ended = await runProgram(["healthcheck", "--port", String(port)], {
    env: isTls ? { TLS_CERT: "/none" } : {},
  });
  const tookMs = performance.now() - startMs;
  const connection = await accepting;
  if (!closes) connection.close();
  return { ended, port, tookMs };
}

for (
  const [what, answer, options] of [
    ["only closes the connection", "", { closes: true }],
    ["closes the connection in the header", "HTTP/1.1 200", { closes: true }],
    ["speaks SSH", "SSH-2.0-OpenSSH_9.2\r\n", { greets: true }],
    ["closes the connection at once", "", { greets: true, closes: true }],
    ["sends zeros", "\0".repeat(1_000), {}],
    ["sends a status that is no number", "HTTP/1.1 OK  \r\n\r\n", {}],
    [
      "switches protocols",
      "HTTP/1.1 101 Switching Protocols\r\n" +
      "Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
      {},
    ],
    ["does not speak TLS", "HTTP/1.1 200 OK\r\n\r\n", { isTls: true }],
    ["closes a TLS connection", "", { isTls: true, closes: true }],
  ] as const
) {
  Deno.test(`healthcheck fails with one line if the other side ${what}`, async () => {
    const { ended, port } = await checkAgainst(answer, options);
    assertOneLine(
      ended,
      1,
      new RegExp(`(no answer from|not ready:) 127\\.0\\.0\\.1 port ${port}`),
    );
  });
}

// Each takes 3 s, so they run at the same time.
Deno.test("healthcheck gives up after 3 s if no complete reply arrives", async () => {
  const answers = ["", "HTTP/1.1 ", "\r\n"];
  await Promise.all(answers.map(async (answer) => {
    const { ended, port, tookMs } = await checkAgainst(answer, {});
    assertOneLine(
      ended,
      1,
      `no answer from 127.0.0.1 port ${port}: no reply within 3 s`,
    );
    assert.ok(tookMs >= HEALTHCHECK_MS_MAX, `gave up after ${tookMs} ms`);
  }));
});

Deno.test("healthcheck does not wait for the rest of a reply", async () => {
  const reply = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
  assert.deepEqual((await checkAgainst(reply, {})).ended, HEALTHY);
});
