/** Failures that commands report, with advice for the operator. */
import type { SettingKey, Settings, StoreSetting } from "../config/settings.ts";
import type { ListenError } from "../http/server.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import { KV_TOKEN_VARIABLE } from "../store/open.ts";
import type { StoreError, StoreErrorKind } from "../store/store_error.ts";

/** The handbook, as a release has it. */
const HANDBOOK = "deploy/README.md";

/** What to do about a KV Connect server that fails. */
const SERVER_ADVICE =
  `check its address, and its token in ${KV_TOKEN_VARIABLE}`;

/** Returns what to do about a problem of a store. */
function adviceFor(kind: StoreErrorKind, location: StoreSetting): string {
  const { setting, createSetting } = location;
  const isServer = location.kind === "server";
  return {
    "path": `check the path in ${setting}, and what is there`,
    "no store":
      `the store must be there, because ${createSetting} is no: check the path ` +
      `in ${setting}, and that its disk is mounted, and see ${HANDBOOK}`,
    "denied":
      "let the user of this program write there; a systemd unit needs it in ReadWritePaths",
    "foreign log":
      `do not stop a service that still runs, which may have it open, see ${HANDBOOK}`,
    "elsewhere": "unset the variables of Deno that begin with DENO_KV",
    "corrupt": `before you restart anything, see ${HANDBOOK}`,
    "newer format": "run the plant-store that stored them",
    "lost":
      `do not stop the service before it has saved the plants, see ${HANDBOOK}`,
    "locked": "wait for that process or stop it, or use a local file system",
    "changed": "run the command again",
    "no answer": isServer
      ? SERVER_ADVICE
      : "another process may have locked it, or its disk hangs",
    "other": isServer ? SERVER_ADVICE : "",
  }[kind];
}

/** Says what is wrong with a store, and what to do. */
export function explain(
  { kind, message }: StoreError,
  location: StoreSetting,
): string {
  const advice = adviceFor(kind, location);
  return advice === "" ? message : `${message}: ${advice}`;
}

/** Converts an error of the store that ends a command. */
export function storeFailure(
  location: StoreSetting,
  error: StoreError,
): OperatorError {
  return new OperatorError(
    `cannot use ${location.name}: ${explain(error, location)}`,
    exitStatusOf(error.isTransient),
  );
}

/** Converts the error of a service that cannot listen. */
export function listenFailure(
  settings: Settings,
  { message, isTransient, isOfTls }: ListenError,
): OperatorError {
  const { host, port } = settings.address();
  const names = (...keys: readonly SettingKey[]) =>
    keys.map((key) => settings.nameOf(key)).join(", ");
  const problem = isOfTls
    ? `cannot serve https: ${message}: check ${names("tlsCert", "tlsKey")}; ` +
      "an RSA key needs at least 2048 bits, and no key may have a passphrase"
    : `cannot listen on ${host} port ${port}: ${message}: ` +
      `check ${names("host", "port")}`;
  return new OperatorError(problem, exitStatusOf(isTransient));
}
