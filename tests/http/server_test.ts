import assert from "node:assert/strict";
import http2 from "node:http2";
import {
  listen,
  type ListenAddress,
  ListenError,
  type Server,
  tryToListen,
} from "../../src/http/server.ts";
import { Log } from "../../src/telemetry/log.ts";
import { assertRefusal } from "../support/refusals.ts";
import { replaced } from "../support/replaced.ts";
import { TestService, TOKENS, VALID } from "../support/service.ts";
import { inTime, settled } from "../support/waiting.ts";
import { createBytes, exchange } from "../support/wire.ts";

/** Nothing is logged. */
const LOG = new Log("text", assert.fail);

/** Starts a server on a free port; it must log nothing. */
function start(
  handle: (request: Request) => Promise<Response>,
): Server & AsyncDisposable {
  const address = { host: "127.0.0.1", port: 0, tls: undefined };
  const server = listen(address, { handle, log: LOG });
  return { ...server, [Symbol.asyncDispose]: () => server.shutdown() };
}

function addressOf({ address }: Server): ListenAddress {
  const { hostname, port } = new URL(address);
  return { host: hostname, port: Number(port), tls: undefined };
}

Deno.test("a Host with a zone is accepted on a socket, and one that is no host cannot change the path", async () => {
  const service = new TestService();
  await using server = start((request) => service.handle(request));
  const { port } = addressOf(server);
  const refused = { error: 40004 };
  // The zone of Python's urllib and of Node, and that of RFC 6874.
  for (const zone of ["%br-lan", "%25eth0~1"]) {
    const line = "GET /livez HTTP/1.1";
    const bytes = createBytes("", {
      line,
      headers: [`host: [fe80::1${zone}]`],
    });
    const reply = await exchange(port, bytes);
    assert.equal(reply?.status, 200);
  }
  for (
    const [line, host] of [
      ["POST /nope HTTP/1.1", "a/plants?"],
      ["GET /x HTTP/1.1", "a/livez?"],
    ] as const
  ) {
    const bytes = createBytes(VALID, { line, headers: [`host: ${host}`] });
    assertRefusal(await exchange(port, bytes), refused);
  }

  // Over HTTP/2 without `:authority`, the URL has the host of this header.
  const session = http2.connect(server.address);
  using _session = { [Symbol.dispose]: () => session.destroy() };
  const stream = session.request({
    ":method": "POST",
    ":path": "/nope",
    "host": "a/plants?",
    "authorization": `Bearer ${TOKENS[0]}`,
    "content-type": "application/json",
  });
  stream.end(VALID);
  const [reply] = await inTime(
    stream.setEncoding("utf8").toArray(),
    () => "a reply over HTTP/2",
  );
  assert.equal(JSON.parse(reply).error, refused.error);
  assert.deepEqual(service.stored(), []);
});

Deno.test("shutdown() resolves when running requests have their replies, and frees the address", async () => {
  const arrived = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  await using server = start(async () => {
    arrived.resolve();
    await resumed.promise;
    return new Response("late");
  });
  const running = fetch(server.address);
  await arrived.promise;
  let isDone = false;
  const done = server.shutdown().then(() => isDone = true);
  await settled();
  const isDoneBefore = isDone;
  resumed.resolve();
  assert.equal(await (await running).text(), "late");
  await done;
  assert.equal(isDoneBefore, false);
  tryToListen(addressOf(server));
});

Deno.test("tryToListen() throws an error that is not transient if a permission is missing", () => {
  const message = "Permission denied (os error 13)";
  const denied = new Deno.errors.PermissionDenied(message);
  const thrown = Object.assign(denied, { code: "EACCES" });
  // Root may listen on every port.
  using _ = replaced(Deno, "listen", () => {
    throw thrown;
  });
  const address = { host: "127.0.0.1", port: 80, tls: undefined };
  const expected = { message, isTransient: false };
  assert.throws(() => tryToListen(address), expected);
});

Deno.test("tryToListen() and listen() throw a transient error if the port is taken", () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  for (
    const listenTo of [
      tryToListen,
      (it: ListenAddress) =>
        listen(it, { handle: () => assert.fail(), log: LOG }),
    ]
  ) {
    const address = { host: "127.0.0.1", port, tls: undefined };
    assert.throws(() => listenTo(address), (error) => {
      assert.ok(error instanceof ListenError);
      assert.match(error.message, /^Address already in use/);
      return error.isTransient;
    });
  }
});

Deno.test("listen() throws a transient error if few descriptors are free", () => {
  const message = "Too many open files (os error 24)";
  const thrown = Object.assign(new Error(message), { code: "EMFILE" });
  using _ = replaced(Deno, "listen", () => {
    throw thrown;
  });
  const address = { host: "127.0.0.1", port: 0, tls: undefined };
  const expected = { message, isTransient: true };
  const options = { handle: () => assert.fail(), log: LOG };
  assert.throws(() => listen(address, options), expected);
});

Deno.test("tryToListen() returns the address of a host", () => {
  const address = { host: "localhost", port: 0, tls: undefined };
  assert.match(tryToListen(address), /^(127\.0\.0\.1|::1)$/);
});
