import assert from "node:assert/strict";
import {
  type Handler,
  listen,
  type Listening,
  tryToListen,
} from "../../src/http/server.ts";
import { Log } from "../../src/telemetry/log.ts";
import { settled } from "../support/fake_store.ts";
import { makeTls, withOpenssl } from "../support/tools.ts";

const hello: Handler = () => new Response("hello");

/** Starts a server, by default on a free port; it must log nothing. */
function start(listening: Partial<Listening> = {}, handler: Handler = hello) {
  const free = { host: "127.0.0.1", port: 0, tls: undefined };
  const address = { ...free, ...listening };
  return listen(address, handler, new Log("text", assert.fail));
}

function portOf({ address }: ReturnType<typeof start>): number {
  return Number(new URL(address).port);
}

Deno.test("listen() returns its address, and an origin that reaches it", async () => {
  const server = start({ host: "0.0.0.0" });
  const port = portOf(server);
  assert.ok(port > 0);
  assert.equal(server.address, `http://0.0.0.0:${port}`);
  assert.equal(server.origin, `http://localhost:${port}`);
  const response = await fetch(server.origin);
  assert.equal(await response.text(), "hello");
  await server.shutdown();
});

withOpenssl.test("listen() with a certificate has an https address and origin", async ({ directory }) => {
  const tls = await makeTls(directory, "plants");
  const server = start({ tls });
  assert.equal(server.address, `https://127.0.0.1:${portOf(server)}`);
  assert.equal(server.origin, server.address);
  await server.shutdown();
});

Deno.test("shutdown() resolves when running requests have their replies, and leaves the address free", async () => {
  const arrived = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  const server = start({}, async () => {
    arrived.resolve();
    await resumed.promise;
    return new Response("late");
  });
  const port = portOf(server);
  const running = fetch(server.origin);
  await arrived.promise;
  let isDone = false;
  const done = server.shutdown().then(() => isDone = true);
  await settled();
  assert.equal(isDone, false);
  resumed.resolve();
  assert.equal(await (await running).text(), "late");
  await done;
  tryToListen({ host: "127.0.0.1", port, tls: undefined });
  await start({ port }).shutdown();
});
