import assert from "node:assert/strict";
import { explain, listenFailure } from "../../src/console/failures.ts";
import { ListenError, tryToListen } from "../../src/http/server.ts";
import { StoreError } from "../../src/store/store_error.ts";
import { settings } from "../support/settings.ts";
import { fileAt, serverAt } from "../support/stores.ts";

const FILE = fileAt("/srv/plants.db", "KV_PATH");
const SERVER = serverAt("http://kv.test/");

Deno.test("explain() adds advice for the kind of the problem, and its own for a server that may recover", () => {
  for (
    const [kind, store, advice] of [
      [
        "no store",
        FILE,
        /^x: the store must be there, because --kv-create is no: check the path in KV_PATH, and that its disk is mounted, and see deploy\/accidents\/README\.md$/,
      ],
      [
        "foreign WAL",
        FILE,
        /^x: stop the service, .*Restore in deploy\/accidents\/README\.md$/,
      ],
      [
        "corrupt",
        FILE,
        /^x: restart once; if it stays, follow Restore in deploy\/accidents\/README\.md$/,
      ],
      [
        "lost",
        FILE,
        /^x: do not restart the service before .*, see deploy\/accidents\/README\.md$/,
      ],
      ["locked", FILE, /^x: stop that process, or use a local file system$/],
      [
        "elsewhere",
        FILE,
        /^x: unset the variables of Deno that begin with DENO_KV$/,
      ],
      ["other", FILE, /^x$/],
      ["other", SERVER, /^x: check its address, .* in DENO_KV_ACCESS_TOKEN$/],
      ["no answer", SERVER, /^x: check its address, .*_KV_ACCESS_TOKEN$/],
      ["newer format", SERVER, /^x: run the plant-store that stored them$/],
    ] as const
  ) assert.match(explain(new StoreError(kind, "x"), store), advice);
});

Deno.test("listenFailure() names the flags or variables to check; what can pass has status 1", () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const PORT = `${port}`;
  const tls = { cert: "no certificate", key: "no key" };
  for (
    const [flags, variables, checks, exitStatus] of [
      [{ port: PORT }, {}, "--host, --port", 1],
      [{}, { PORT, HOST: "127.0.0.1" }, "HOST, PORT", 1],
      // RFC 6761 and 5737 reserve the name and the address.
      [{ host: "plants.invalid" }, {}, "--host, --port", 1],
      [{ host: "192.0.2.1" }, {}, "--host, --port", 1],
      [{ host: "a/b" }, {}, "--host, --port", 2],
      [
        { "tls-cert": "/c" },
        { PORT: "0", TLS_KEY: "/k" },
        "--host, PORT, --tls-cert, TLS_KEY",
        2,
      ],
    ] as const
  ) {
    const given = settings(flags, variables);
    const where = { ...given.address(), tls: given.isTls() ? tls : undefined };
    assert.throws(() => tryToListen(where), (error) => {
      assert.ok(error instanceof ListenError);
      const failure = listenFailure(given, error);
      assert.match(
        failure.message,
        new RegExp(
          `^cannot listen on ${where.host} port ${where.port}: .+: check ${checks}$`,
        ),
      );
      assert.equal(failure.exitStatus, exitStatus);
      return true;
    });
  }
});
