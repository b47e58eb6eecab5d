import assert from "node:assert/strict";
import { orListenFailure } from "../../src/console/listen_failure.ts";
import { listen, type Listening, tryToListen } from "../../src/http/server.ts";
import { OperatorError } from "../../src/operator_error.ts";
import { Log } from "../../src/telemetry/log.ts";
import { readConfig } from "../support/settings.ts";
import { makeTls, withOpenssl } from "../support/tools.ts";

/** Asserts what an operator reads when listening fails, and the exit status. */
function assertFails(
  operation: () => unknown,
  exitStatus: number,
  message: string | RegExp,
  env: Record<string, string> = {},
): void {
  const config = readConfig({}, { PORT: "80", ...env });
  assert.throws(() => orListenFailure(config, operation), (error) => {
    assert.ok(error instanceof OperatorError);
    const [, prefix, rest] = /^(cannot listen on \S+ port 80: )(.*)$/s
      .exec(error.message) ?? [];
    assert.ok(prefix !== undefined, error.message);
    if (typeof message === "string") assert.equal(rest, message);
    else assert.match(rest ?? "", message);
    assert.equal(error.exitStatus, exitStatus);
    return true;
  });
}

/** Asserts that neither way to listen works, for a reason. */
function assertRefused(
  address: Partial<Listening>,
  exitStatus: number,
  message: string | RegExp,
): void {
  const all = { host: "127.0.0.1", port: 0, tls: undefined, ...address };
  const handler = () => new Response();
  assertFails(() => tryToListen(all), exitStatus, message);
  const serve = () => listen(all, handler, new Log("text"));
  assertFails(serve, exitStatus, message);
}

const OTHER_HOST =
  "this machine does not have the address: choose another --host";

Deno.test("orListenFailure() explains why the runtime cannot listen on an address", () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr;
  assertRefused(
    { port },
    1,
    "another program listens there: stop it, or choose another PORT",
  );
  // RFC 5737 reserves the address for documentation.
  assertRefused({ host: "192.0.2.1" }, 1, OTHER_HOST);
  assertRefused({ host: "plants..test" }, 1, /invalid host/);
});

Deno.test("orListenFailure() explains errors that not every machine has", () => {
  const { PermissionDenied, AddrNotAvailable } = Deno.errors;
  for (
    const [error, exitStatus, message, env] of [
      [
        new Error("failed to lookup address information: Name not known"),
        2,
        "unknown host name: choose another HOST",
        { HOST: "plants.invalid" },
      ],
      [
        new PermissionDenied("Permission denied (os error 13)"),
        2,
        "permission denied: choose a PORT of 1024 or above",
      ],
      [new AddrNotAvailable("x"), 1, OTHER_HOST],
      ["Too many open files", 1, "Too many open files"],
    ] as const
  ) {
    const operation = () => {
      throw error;
    };
    assertFails(operation, exitStatus, message, env);
  }
});

withOpenssl.test("orListenFailure() explains a certificate and a key that cannot be used, apart from problems of the address", async ({ directory }) => {
  const { cert, key } = await makeTls(directory, "plants");
  const other = await makeTls(directory, "other");
  const garbage = (label: string) =>
    `-----BEGIN ${label}-----\nAAAA\n-----END ${label}-----\n`;
  for (
    const [tls, message] of [
      [
        { cert, key: other.key },
        /^the key does not belong to the certificate: check --tls-cert and/,
      ],
      [{ cert: "text", key }, /certificate.*: check --tls-cert and --tls-key,/],
      [{ cert, key: "text" }, /key.*: check --tls-cert/],
      [{ cert: key, key: cert }, /certificate.*: check --tls-cert/],
      [{ cert: garbage("CERTIFICATE"), key }, /certificate.*: check --tls/],
      [{ cert, key: garbage("PRIVATE KEY") }, /key.*: check --tls-cert/],
    ] as const
  ) assertRefused({ tls }, 2, message);
  const tls = { cert, key };
  assertRefused({ host: "192.0.2.1", tls }, 1, OTHER_HOST);
});
