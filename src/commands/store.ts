/** Opens stores; its errors contain advice for the operator. */
import { fileProblem } from "../messages.ts";
import {
  EXIT_CONFIGURATION,
  EXIT_FAILURE,
  OperatorError,
} from "../operator_error.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openStore, openStoreToRead } from "../store/open.ts";
import type { StoreLocation } from "../store/location.ts";
import {
  StoreError,
  type StoreProblem,
  toStoreError,
} from "../store/errors.ts";

/** Problems that can disappear without a change of the configuration. */
const TRANSIENT: readonly StoreProblem[] = [
  "full",
  "in use",
  "server",
  "other",
];

/** Advice to the operator for each problem. */
const STORE_ADVICE: Readonly<Record<StoreProblem, string>> = {
  "missing": ": name the store with --kv or KV_PATH",
  "no directory": ": create it, or name another file with --kv or KV_PATH",
  "directory": ": name a file in it with --kv or KV_PATH",
  "not a store":
    ": restore a backup, or name another file with --kv or KV_PATH",
  "missing database":
    ": move the database back, put a backup there with plant-store restore, " +
    "or move that log away and import the plants",
  "foreign log":
    ": stop the service, and put a backup there with plant-store restore, or " +
    "move that log away",
  "denied": ": change the permissions, or run as another user",
  "read-only":
    ": mount it for writing, or name another file with --kv or KV_PATH",
  "special path": ": name another file with --kv or KV_PATH",
  "corrupt": "",
  "full": "",
  "in use": ": stop it first",
  "newer format":
    ": run that Deno, or export with it and import here into a new store",
  "server": ": check its address, and its token in DENO_KV_ACCESS_TOKEN",
  "other": "",
};

/** The store is a file to restore. */
export const RESTORE_ADVICE: typeof STORE_ADVICE = {
  ...STORE_ADVICE,
  "missing": ": name a backup",
  "directory": ": name a backup in it",
  "not a store": ": name a backup",
  "missing database": ": name the database of that log",
  "foreign log": ": move that log away, or name another backup",
  "special path": ": name another file",
  "corrupt": ": name another backup",
};

/** Opens a store to create plants. @throws {OperatorError} */
export function openForCreates(location: StoreLocation): Promise<KvStore> {
  return openStore(location).catch((error) => {
    throw storeFailure("store plants in", location, error);
  });
}

/** Opens an existing store to export it. @throws {OperatorError} */
export function openForExport(location: StoreLocation): Promise<KvStore> {
  return openStoreToRead(location).catch((error) => {
    throw storeFailure("read", location, error);
  });
}

/**
 * Converts an error of a store.
 * @param action completes "cannot"
 */
export function storeFailure(
  action: string,
  location: StoreLocation,
  error: unknown,
  advice = STORE_ADVICE,
): OperatorError {
  const { problem, message } = toStoreError(error, location);
  return new OperatorError(
    `cannot ${action} ${nameOf(location)}: ${message}${advice[problem]}`,
    TRANSIENT.includes(problem) ? EXIT_FAILURE : EXIT_CONFIGURATION,
  );
}

/**
 * Converts an error of a command that copies a store into a file.
 * @param action completes "cannot", if the store is the problem
 */
export function copyFailure(
  action: string,
  location: StoreLocation,
  file: string,
  error: unknown,
): OperatorError {
  if (error instanceof OperatorError) return error;
  if (error instanceof StoreError) return storeFailure(action, location, error);
  return new OperatorError(
    `cannot write ${file}: ${fileProblem(error)}`,
    EXIT_FAILURE,
  );
}

/** Returns the name of a store for messages. */
export function nameOf(location: StoreLocation): string {
  return location.kind === "file" ? location.path : location.url;
}
