/** Failures that commands report, with advice for the operator. */
import type { Settings } from "../config/settings.ts";
import type { ListenError } from "../http/server.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import { KV_TOKEN_VARIABLE, type StoreLocation } from "../store/open.ts";
import type { StoreError, StoreErrorKind } from "../store/store_error.ts";

/** What to do about a KV Connect server that fails. */
const SERVER_ADVICE =
  `check its address, and its token in ${KV_TOKEN_VARIABLE}`;

/** Returns what to do about a problem of a store. */
function adviceFor(kind: StoreErrorKind, location: StoreLocation): string {
  const { setting } = location;
  return {
    "no store": `check the path in ${setting}, and that its disk is mounted`,
    "not a store": `check the path in ${setting}, and what is there`,
    "denied":
      "let the user of this program write there; a systemd unit needs it in ReadWritePaths",
    "foreign log":
      "do not stop a service that still runs, which may have it open; put its " +
      "database back, or move this file away; do not delete it",
    "wrong store": "unset the variables of Deno that begin with DENO_KV",
    "corrupt":
      "before you restart anything, save what an export can still read",
    "newer format": "run the plant-store that stored them",
    "lost": "do not stop the service before it has saved the plants",
    "locked": "wait for that process or stop it, or use a local file system",
    "changed": "run the command again",
    "no answer": location.kind === "server"
      ? SERVER_ADVICE
      : "another process may have locked it, or its disk hangs",
    "disk": "make room on the disk, or replace it",
    "server": SERVER_ADVICE,
    "unknown": "",
  }[kind];
}

/** Returns what is wrong with a store, and what to do; the kind goes before it. */
export function explain(
  { kind, message }: StoreError,
  location: StoreLocation,
): string {
  const advice = adviceFor(kind, location);
  return advice === "" ? message : `${message}: ${advice}`;
}

/** Converts an error of the store that ends a command. */
export function storeFailure(
  location: StoreLocation,
  error: StoreError,
): OperatorError {
  return new OperatorError(
    `cannot use ${location.name} (${error.kind}): ${explain(error, location)}`,
    exitStatusOf(error.isTransient),
  );
}

/** Converts the error of a service that cannot listen. */
export function listenFailure(
  settings: Settings,
  { message, isTransient, isOfTls }: ListenError,
): OperatorError {
  const { host, port } = settings.address();
  const problem = isOfTls
    ? `cannot serve https: ${message}: ` +
      `check ${settings.nameOf("tlsCert", "tlsKey")}; ` +
      "an RSA key needs at least 2048 bits, and no key may have a passphrase"
    : `cannot listen on ${host} port ${port}: ${message}: ` +
      `check ${settings.nameOf("host", "port")}`;
  return new OperatorError(problem, exitStatusOf(isTransient));
}
