import assert from "node:assert/strict";
import type { Config } from "../../src/config.ts";
import {
  type Handler,
  HttpServer,
  ListenError,
  type ListenProblem,
  originOf,
} from "../../src/http/server.ts";
import { Log } from "../../src/telemetry/log.ts";
import { TemporaryDirectory } from "../support/temporary.ts";
import { HAS_OPENSSL, makeCertificate } from "../support/tools.ts";
import { Wire } from "../support/wire.ts";

type Tls = NonNullable<Config["tls"]>;

const HAS_IPV6 = canListen("::1");

const GET = "GET / HTTP/1.1\r\nHost: plants.test\r\n\r\n";

const hello: Handler = () => Promise.resolve(new Response("hello"));

function canListen(hostname: string): boolean {
  try {
    Deno.listen({ hostname, port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}

/** Starts a server, by default on a free port. */
function start(
  { host = "127.0.0.1", port = 0, tls }: {
    readonly host?: string;
    readonly port?: number;
    readonly tls?: Tls;
  } = {},
  handler: Handler = hello,
): HttpServer {
  const config: Config = {
    host,
    port,
    tls,
    store: { kind: "server", url: "http://kv.test", token: "kv-token" },
    tokens: [],
    tokenFile: undefined,
    baseUrl: undefined,
    logFormat: "json",
  };
  return new HttpServer(config, handler, new Log("json"));
}

/** Asserts that a server cannot start. */
function assertListenError(
  options: Parameters<typeof start>[0],
  problem: ListenProblem,
  message: string | RegExp,
): void {
  assert.throws(() => start(options), (error) => {
    assert.ok(error instanceof ListenError);
    assert.equal(error.name, "ListenError");
    assert.equal(error.problem, problem);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  });
}

/** Makes a certificate and its key, as text. */
async function readCertificate(
  directory: TemporaryDirectory,
  name: string,
): Promise<Tls> {
  const { cert, key } = await makeCertificate(directory, name);
  return {
    cert: Deno.readTextFileSync(cert),
    key: Deno.readTextFileSync(key),
  };
}

function portOf({ address }: HttpServer): number {
  return Number(new URL(address).port);
}

for (
  const [host, address, origin = address] of [
    ["127.0.0.1", "http://127.0.0.1"],
    ["localhost", /^http:\/\/(127\.0\.0\.1|\[::1\]):\d+$/],
    ["0.0.0.0", "http://0.0.0.0", "http://localhost"],
    ["::1", "http://[::1]"],
    ["::", "http://[::]", "http://localhost"],
  ] as const
) {
  Deno.test({
    name:
      `HttpServer on ${host} names its address, and an origin that reaches it`,
    ignore: host.includes(":") && !HAS_IPV6,
    fn: async () => {
      const server = start({ host });
      const port = portOf(server);
      assert.ok(port > 0);
      for (
        const [found, expected] of [
          [server.address, address],
          [server.origin, origin],
        ] as const
      ) {
        if (expected instanceof RegExp) assert.match(found, expected);
        else assert.equal(found, `${expected}:${port}`);
      }
      const response = await fetch(server.origin);
      assert.equal(await response.text(), "hello");
      await server.shutdown();
    },
  });
}

Deno.test("originOf() puts IPv6 addresses in brackets, and replaces wildcard addresses by localhost", () => {
  for (
    const [host, isTls, origin] of [
      ["127.0.0.1", false, "http://127.0.0.1:8000"],
      ["192.0.2.7", true, "https://192.0.2.7:8000"],
      ["plants.test", false, "http://plants.test:8000"],
      ["2001:db8::1", false, "http://[2001:db8::1]:8000"],
      ["0.0.0.0", false, "http://localhost:8000"],
      ["0.0.0.0", true, "https://localhost:8000"],
      ["::", false, "http://localhost:8000"],
    ] as const
  ) assert.equal(originOf(host, 8000, isTls), origin);
});

Deno.test("HttpServer with port 0 listens on a free port each time, and on that port if it is given", async () => {
  const first = start();
  const second = start();
  assert.notEqual(portOf(first), portOf(second));
  await first.shutdown();
  const again = start({ port: portOf(first) });
  assert.equal(again.address, first.address);
  await Promise.all([again.shutdown(), second.shutdown()]);
});

Deno.test("HttpServer throws a ListenError if another program listens on the address", () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr;
  assertListenError(
    { port },
    "address in use",
    "another program listens there",
  );
});

Deno.test("HttpServer throws a ListenError if the machine does not have the address", () => {
  // RFC 5737 reserves the address for documentation.
  assertListenError(
    { host: "192.0.2.1" },
    "address not available",
    "this machine does not have the address",
  );
});

Deno.test("HttpServer throws a ListenError if the host name has no address of the machine", () => {
  // RFC 6761 reserves the name; some resolvers give every name an address.
  assertListenError(
    { host: "plants.invalid" },
    "address not available",
    /^unknown host name$|does not have/,
  );
});

Deno.test("HttpServer throws a ListenError if the host is invalid", () => {
  assertListenError({ host: "plants..test" }, "other", /invalid host/);
});

Deno.test({
  name: "HttpServer throws a ListenError if the port needs more permissions",
  ignore: Deno.build.os !== "linux" || Deno.uid() === 0,
  fn: () =>
    assertListenError({ port: 1 }, "permission denied", "permission denied"),
});

Deno.test({
  name: "HttpServer with a certificate has an https address and origin",
  ignore: !HAS_OPENSSL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const tls = await readCertificate(directory, "plants");
    const server = start({ tls });
    assert.equal(server.address, `https://127.0.0.1:${portOf(server)}`);
    assert.equal(server.origin, server.address);
    await server.shutdown();
  },
});

Deno.test({
  name:
    "HttpServer throws a ListenError about a certificate and a key that cannot be used",
  ignore: !HAS_OPENSSL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const [{ cert, key }, other] = await Promise.all([
      readCertificate(directory, "plants"),
      readCertificate(directory, "other"),
    ]);
    const garbage = (label: string) =>
      `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`;
    for (
      const [tls, message] of [
        [
          { cert, key: other.key },
          "the key does not belong to the certificate",
        ],
        [{ cert: "", key: "" }, /./],
        [{ cert: "text", key }, /certificate/],
        [{ cert, key: "text" }, /key/],
        [{ cert: key, key: cert }, /certificate/],
        [{ cert: garbage("CERTIFICATE"), key }, /certificate/],
        [{ cert, key: garbage("PRIVATE KEY") }, /key/],
      ] as const
    ) assertListenError({ tls }, "certificate", message);
  },
});

Deno.test({
  name:
    "HttpServer with a certificate distinguishes problems of the address from those of the certificate",
  ignore: !HAS_OPENSSL,
  fn: async () => {
    using directory = new TemporaryDirectory();
    const tls = await readCertificate(directory, "plants");
    using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = other.addr;
    assertListenError({ tls, port }, "address in use", /./);
    assertListenError({ tls, host: "192.0.2.1" }, "address not available", /./);
    assertListenError({ tls, host: "plants..test" }, "other", /invalid host/);
  },
});

Deno.test("shutdown() refuses connections, and resolves when running requests have their replies", async () => {
  const arrived = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  const server = start({}, async () => {
    arrived.resolve();
    await resumed.promise;
    return new Response("late");
  });
  const port = portOf(server);
  using running = await Wire.connect(port);
  await running.send(GET);
  await arrived.promise;
  using idle = await Wire.connect(port);

  let isDone = false;
  const done = server.shutdown().then(() => {
    isDone = true;
  });
  assert.equal(await idle.rest(), "");
  await assert.rejects(
    Deno.connect({ hostname: "127.0.0.1", port }),
    Deno.errors.ConnectionRefused,
  );
  assert.equal(isDone, false);
  resumed.resolve();
  assert.equal((await running.reply())?.text, "late");
  assert.equal(await running.rest(), "");
  await done;
});

Deno.test("shutdown() ends idle connections, and the server does not fail or listen again", async () => {
  const server = start();
  let hasFailed = false;
  server.failed.catch(() => {
    hasFailed = true;
  });
  const port = portOf(server);
  using wire = await Wire.connect(port);
  await wire.send(GET);
  assert.equal((await wire.reply())?.text, "hello");
  await server.shutdown();
  assert.equal(await wire.rest(), "");
  assert.equal(hasFailed, false);
  // The address is free again.
  Deno.listen({ hostname: "127.0.0.1", port }).close();
});
