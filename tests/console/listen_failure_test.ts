import assert from "node:assert/strict";
import { SYSTEM_CLOCK } from "../../src/clock.ts";
import { listenFailure } from "../../src/console/listen_failure.ts";
import { HttpServer, tryToListen } from "../../src/http/server.ts";
import { Log } from "../../src/telemetry/log.ts";
import { readConfig } from "../support/settings.ts";
import { makeTls, withOpenssl } from "../support/tools.ts";

/** Asserts how errors of the runtime are described to the operator. */
function assertFailures(
  errors: readonly unknown[],
  exitStatus: number,
  message: string | RegExp,
): void {
  for (const error of errors) {
    const failure = listenFailure(readConfig({ "--port": "80" }), error);
    assert.equal(failure.exitStatus, exitStatus);
    const prefix = "cannot listen on 127.0.0.1 port 80: ";
    assert.ok(failure.message.startsWith(prefix), failure.message);
    const rest = failure.message.slice(prefix.length);
    if (typeof message === "string") assert.equal(rest, message);
    else assert.match(rest, message);
  }
}

/** Returns the errors of the runtime for an address that it refuses. */
function listenErrors(
  host: string,
  port = 0,
  pair?: Deno.TlsCertifiedKeyPem,
): unknown[] {
  const address = { host, port, tls: pair && { pair } };
  const log = new Log("text");
  return [
    () => tryToListen(address),
    () =>
      new HttpServer(address, {
        handler: () => new Response(),
        log,
        clock: SYSTEM_CLOCK,
      }),
  ].map((listen) => {
    try {
      listen();
    } catch (error) {
      return error;
    }
    assert.fail("it listens");
  });
}

Deno.test("listenFailure() names an address in use", () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  assertFailures(
    listenErrors("127.0.0.1", other.addr.port),
    1,
    "another program listens there: stop it, or choose another --port",
  );
});

Deno.test("listenFailure() names an address that the machine does not have", () => {
  // RFC 5737 reserves the address for documentation.
  assertFailures(
    listenErrors("192.0.2.1"),
    1,
    "this machine does not have the address: choose another --host",
  );
});

Deno.test("listenFailure() names an unknown host name, which only the operator can change", () => {
  assertFailures(
    [new Error("failed to lookup address information: Name not known")],
    2,
    "unknown host name: choose another --host",
  );
  // RFC 6761 reserves the name; some resolvers give every name an address.
  for (const error of listenErrors("plants.invalid")) {
    const { message } = listenFailure(readConfig(), error);
    assert.match(
      message,
      /: (unknown host name|this machine does not have the address): choose another --host$/,
    );
  }
});

Deno.test("listenFailure() names the variables that have the values", () => {
  const env = { HOST: "::1", PORT: "80" };
  const config = readConfig({}, env);
  const names = { ...config.names, tlsCert: "TLS_CERT", tlsKey: "TLS_KEY" };
  const { AddrInUse, AddrNotAvailable, InvalidData } = Deno.errors;
  for (
    const [error, advice] of [
      [new AddrInUse("x"), /: stop it, or choose another PORT$/],
      [new AddrNotAvailable("x"), /: choose another HOST$/],
      [new InvalidData("x"), /: check TLS_CERT and TLS_KEY$/],
    ] as const
  ) {
    const { message } = listenFailure({ ...config, names }, error);
    assert.ok(message.startsWith("cannot listen on ::1 port 80: "), message);
    assert.match(message, advice);
  }
});

Deno.test("listenFailure() names a port that needs more permissions", () => {
  assertFailures(
    [new Deno.errors.PermissionDenied("Permission denied (os error 13)")],
    2,
    "permission denied: choose a --port of 1024 or above",
  );
});

Deno.test("listenFailure() repeats any other error of the runtime", () => {
  assertFailures(listenErrors("plants..test"), 1, /invalid host/);
  assertFailures(["Too many open files"], 1, "Too many open files");
});

withOpenssl.test("listenFailure() names a certificate and a key that cannot be used, apart from problems of the address", async ({ directory }) => {
  const { cert, key } = await makeTls(directory, "plants");
  const other = await makeTls(directory, "other");
  const garbage = (label: string) =>
    `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`;
  for (
    const [tls, message] of [
      [
        { cert, key: other.key },
        /^the key does not belong to the certificate: check --tls-cert/,
      ],
      [{ cert: "", key: "" }, /: check --tls-cert and --tls-key$/],
      [{ cert: "text", key }, /certificate.*: check --tls-cert/],
      [{ cert, key: "text" }, /key.*: check --tls-cert/],
      [{ cert: key, key: cert }, /certificate.*: check --tls-cert/],
      [{ cert: garbage("CERTIFICATE"), key }, /certificate.*: check --tls/],
      [{ cert, key: garbage("PRIVATE KEY") }, /key.*: check --tls-cert/],
    ] as const
  ) assertFailures(listenErrors("127.0.0.1", 0, tls), 2, message);

  const address = listenErrors("192.0.2.1", 0, { cert, key });
  assertFailures(address, 1, /: choose another --host$/);
  const invalid = listenErrors("plants..test", 0, { cert, key });
  assertFailures(invalid, 1, /invalid/);
});
