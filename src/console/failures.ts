/** Failures of stores and files, with advice for the operator. */
import type { StoreSetting } from "../config/settings.ts";
import { toFileError } from "../files/file_error.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import type { StoreLocation } from "../store/location.ts";
import { type StoreError, toStoreError } from "../store/store_error.ts";

type StoreProblem = StoreError["problem"];

const PERMISSIONS = "change the permissions, or run as another user";

/** Returns what to do about a problem of a store. */
function adviseOnStore(
  problem: StoreProblem,
  { kind, setting }: StoreSetting,
): string {
  const other = `name another file with ${setting}`;
  const server = "check its address, and its token in DENO_KV_ACCESS_TOKEN";
  const advice: Readonly<Record<StoreProblem, string>> = {
    "missing": `name the store with ${setting}`,
    "no directory": `create it, or ${other}`,
    "directory": `name a file in it with ${setting}`,
    "exists": "",
    "special path": other,
    "bad path": other,
    "read-only":
      `mount it for writing, add it to ReadWritePaths of the systemd unit, or ${other}`,
    "denied": PERMISSIONS,
    "full": "free some space",
    "not synced": "",
    "other": "",
    "not a store": `restore a backup, or ${other}`,
    "missing database":
      "move the database back, restore a backup, or move the log away to start without its plants",
    "foreign log":
      "stop the service, and restore a backup, or move that log away to start without the plants that only it has",
    "corrupt": "check the disk, try again, and if this stays, restore a backup",
    "newer format": "run the plant-store that stored them, or restore a backup",
    "no answer": kind === "file"
      ? "another process may have locked it, or its disk hangs"
      : server,
    "locked": "stop that process, or use a local file system",
    "lost": "save its files before the service stops: see the handbook",
    server,
  };
  return advice[problem];
}

/** What to do about a problem of a backup, where it differs. */
const ADVICE_ON_BACKUP: Readonly<Partial<Record<StoreProblem, string>>> = {
  "denied": PERMISSIONS,
  "read-only": "copy it, with its log, to a file system that can be written",
  "missing database": "name the database of that log",
  "foreign log": "move that log away, or name another backup",
};

/** Says what is wrong with a store, and what to do. */
export function explain(error: StoreError, store: StoreSetting): string {
  return complete(error, adviseOnStore(error.problem, store));
}

function complete({ message }: StoreError, advice: string): string {
  return advice === "" ? message : `${message}: ${advice}`;
}

/**
 * Converts an error of the store.
 * @param action completes "cannot"
 */
export function storeFailure(
  action: string,
  store: StoreSetting,
  error: unknown,
): OperatorError {
  if (error instanceof OperatorError) return error;
  const converted = toStoreError(error, store);
  return new OperatorError(
    `cannot ${action} ${nameOf(store)}: ${explain(converted, store)}`,
    exitStatusOf(converted),
  );
}

/** Converts an error of a backup, or of the store, that cannot be copied. */
export function backupFailure(path: string, error: StoreError): OperatorError {
  const byDefault = error.isPassing ? "" : "name another backup";
  const advice = ADVICE_ON_BACKUP[error.problem] ?? byDefault;
  return new OperatorError(
    `cannot restore ${path}: ${complete(error, advice)}`,
    exitStatusOf(error),
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
  if (error instanceof OperatorError) return error;
  const converted = toFileError(error);
  return new OperatorError(
    `cannot ${action} ${name}: ${converted.message}`,
    exitStatusOf(converted),
  );
}

/** Returns the name of a store for messages. */
export function nameOf(location: StoreLocation): string {
  return location.kind === "file" ? location.path : location.url;
}
