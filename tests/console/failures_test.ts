import assert from "node:assert/strict";
import { explain, listenFailure } from "../../src/console/failures.ts";
import { ListenError, tryToListen } from "../../src/http/server.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { settings } from "../support/settings.ts";
import { fileAt, serverAt } from "../support/stores.ts";

const FILE = fileAt("/srv/plants.db", "KV_PATH");
const SERVER = serverAt("http://kv.test/");

for (
  const [kind, store, advice] of [
    [
      "no store",
      FILE,
      /^x: check the path in KV_PATH, and that its disk is mounted$/,
    ],
    [
      "foreign log",
      FILE,
      /^x: do not stop a service that still runs, .* do not delete it$/,
    ],
    [
      "corrupt",
      FILE,
      /^x: before you restart anything, save what an export can still read$/,
    ],
    [
      "lost",
      FILE,
      /^x: do not stop the service before it has saved the plants$/,
    ],
    [
      "locked",
      FILE,
      /^x: wait for that process or stop it, or use a local file system$/,
    ],
    ["changed", SERVER, /^x: run the command again$/],
    [
      "wrong store",
      FILE,
      /^x: unset the variables of Deno that begin with DENO_KV$/,
    ],
    ["disk", FILE, /^x: make room on the disk, or replace it$/],
    ["unknown", FILE, /^x$/],
    ["server", SERVER, /^x: check its address, .* in DENO_KV_ACCESS_TOKEN$/],
    ["no answer", SERVER, /^x: check its address, .*_KV_ACCESS_TOKEN$/],
    ["newer format", SERVER, /^x: run the plant-store that stored them$/],
  ] as const
) {
  Deno.test(`explain() adds advice for the kind "${kind}" of a ${store.kind}`, () => {
    assert.match(explain(new StoreError(kind, "x"), store), advice);
  });
}

/** Stands for a port on which another program listens. */
const TAKEN = "taken";

/** What cannot be read as a certificate and its key. */
const NO_TLS = { cert: "no certificate", key: "no key" };

for (
  const [what, flags, variables, checks, exitStatus] of [
    ["a port that is taken", { port: TAKEN }, {}, "--host, --port", 1],
    [
      "a port of a variable that is taken",
      {},
      { PORT: TAKEN, HOST: "127.0.0.1" },
      "HOST, PORT",
      1,
    ],
    // RFC 6761 and 5737 reserve the name and the address.
    [
      "a host that does not exist",
      { host: "plants.invalid" },
      {},
      "--host, --port",
      1,
    ],
    [
      "an address of another machine",
      { host: "192.0.2.1" },
      {},
      "--host, --port",
      1,
    ],
    ["a host that is no name", { host: "a/b" }, {}, "--host, --port", 2],
    [
      "a certificate that is none",
      { "tls-cert": "/c" },
      { PORT: "0", TLS_KEY: "/k" },
      "--tls-cert, TLS_KEY",
      2,
    ],
  ] as const
) {
  Deno.test(`listenFailure() names what to check for ${what}, with status ${exitStatus}`, () => {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const taken = `${listener.addr.port}`;
    const replaceTaken = (values: Readonly<Record<string, string>>) =>
      Object.fromEntries(
        Object.entries(values)
          .map(([name, value]) => [name, value === TAKEN ? taken : value]),
      );
    const given = settings(replaceTaken(flags), replaceTaken(variables));
    const tls = given.isTls() ? NO_TLS : undefined;
    const where = { ...given.address(), tls };
    const { host, port } = where;
    const message = new RegExp(
      tls === undefined
        ? `^cannot listen on ${host} port ${port}: .+: check ${checks}$`
        : `^cannot serve https: .+: check ${checks}; an RSA key needs `,
    );
    assert.throws(() => tryToListen(where), (error) => {
      assert.ok(error instanceof ListenError);
      const failure = listenFailure(given, error);
      assert.match(failure.message, message);
      assert.equal(failure.exitStatus, exitStatus);
      return true;
    });
  });
}
