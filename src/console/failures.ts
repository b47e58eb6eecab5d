/** Failures of stores and files, with advice for the operator. */
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import { KV_TOKEN, type StoreLocation } from "../store/location.ts";
import {
  type StoreError,
  type StoreErrorKind,
  toStoreError,
} from "../store_error.ts";

/** Returns what to do about a problem of a store, which a setting names. */
function adviceFor(kind: StoreErrorKind, setting: string): string {
  return {
    "path": `check the path in ${setting}, and what is there`,
    "denied":
      "let the user of this program write there; a systemd unit needs it in ReadWritePaths",
    "foreign log":
      "stop the service, and put that database back, or move the log away and import the last export",
    "corrupt":
      "check the disk, try again, and if this stays, import the last export into a new store",
    "newer format": "run the plant-store that stored them",
    "lost": "",
    "locked": "stop that process, or use a local file system",
    "no answer": "another process may have locked it, or its disk hangs",
    "other": "",
  }[kind];
}

const SERVER_ADVICE = `check its address, and its token in ${KV_TOKEN}`;

/** Says what is wrong with a store, and what to do. */
export function explain(
  { kind, message, isTransient }: StoreError,
  store: StoreLocation,
): string {
  const advice = store.kind === "server" && isTransient
    ? SERVER_ADVICE
    : adviceFor(kind, store.setting);
  return advice === "" ? message : `${message}: ${advice}`;
}

/**
 * Converts an error of the store.
 * @param action completes "cannot"
 */
export function storeFailure(
  action: string,
  store: StoreLocation,
  error: unknown,
): OperatorError {
  const converted = toStoreError(error);
  return new OperatorError(
    `cannot ${action} ${nameOf(store)}: ${explain(converted, store)}`,
    exitStatusOf(converted),
  );
}

/**
 * Converts an error of a file that is not the store.
 * @param action completes "cannot"
 * @param name the file, or what it is
 */
export function fileFailure(
  action: string,
  name: string,
  error: unknown,
): OperatorError {
  const converted = toStoreError(error);
  return new OperatorError(
    `cannot ${action} ${name}: ${converted.message}`,
    exitStatusOf(converted),
  );
}

/** Returns the name of a store for messages. */
export function nameOf(location: StoreLocation): string {
  return location.kind === "file" ? location.path : location.url;
}
