/** Failures of stores and files, with advice for the operator. */
import { userInfo } from "node:os";
import { exists, nameAside, resolveLinks } from "../files/file_system.ts";
import { quoteForShell } from "../messages.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import { toStoreError } from "../store/store_error.ts";
import {
  type FileError,
  type FileProblem,
  toFileError,
} from "../files/file_error.ts";
import { SHM_SUFFIX, WAL_SUFFIX } from "../store/files/inspect.ts";
import { isComplete, savedFilesOf } from "../store/files/saved.ts";
import type { StoreLocation } from "../store/location.ts";

/** Where a problem is: in the configured store, or in a file to restore. */
type Role = "store" | "backup";

/** Completes a message about a problem. */
type Advice = string | ((error: FileError, store: string) => string);

const WITHOUT_LOG = "or go on without the plants that only that log has";

const OTHER_FILE = "name another file with --kv or KV_PATH";

/** Advice for each problem of a store, and of a file to restore if it differs. */
const ADVICE: Readonly<
  Record<FileProblem, readonly [store: Advice, backup?: Advice]>
> = {
  "missing": [": name the store with --kv or KV_PATH", ": name a backup"],
  "no directory": [`: create it, or ${OTHER_FILE}`],
  "directory": [
    ": name a file in it with --kv or KV_PATH",
    ": name a backup in it",
  ],
  "exists": [""],
  "special path": [`: ${OTHER_FILE}`, ": name another file"],
  "bad path": [`: ${OTHER_FILE}`, ": name another file"],
  "read-only": [`: mount it for writing, or ${OTHER_FILE}`],
  "denied": [": change the permissions, or run as another user"],
  "not a store": [`: restore a backup, or ${OTHER_FILE}`, ": name a backup"],
  "no links": [(_, store) => `: move it away first: ${moveAway(store, "")}`],
  "missing database": [
    (_, store) =>
      ": move the database back, or restore a backup with plant-store restore, " +
      `${WITHOUT_LOG}: ${moveAway(store, WAL_SUFFIX)}`,
    ": name the database of that log",
  ],
  "missing log": [
    (_, store) =>
      ": stop the service, and restore a backup with plant-store restore, " +
      `${WITHOUT_LOG}: ${moveAway(store, SHM_SUFFIX)}`,
    ": name another backup",
  ],
  "log beside link": [
    (_, store) => adviseOnLog(store),
  ],
  "foreign log": [
    (_, store) =>
      ": stop the service, and restore a backup with plant-store restore, " +
      `${WITHOUT_LOG}: ${moveAway(store, WAL_SUFFIX)}`,
    ": move that log away, or name another backup",
  ],
  "saved plants": [
    ({ file = "" }, store) => {
      const first = isComplete(file)
        ? ""
        : "and if that file is still there, restore a backup if the store was " +
          "deleted or cut, ";
      return `: ${importAdvice(file, store, first)}`;
    },
  ],
  "corrupt": [(_, store) => adviseOnSaved(store), ": name another backup"],
  "newer format": [
    (_, store) =>
      ": run the plant-store that wrote it, or export with that one and import " +
      `here into a new store, or restore a backup${adviseOnSaved(store)}`,
    ": restore it with the plant-store that wrote it, or name another backup",
  ],
  "full": [""],
  "in use": [": stop it first"],
  "server": [": check its address, and its token in DENO_KV_ACCESS_TOKEN"],
  "other": [""],
};

/**
 * Returns what to do with a file of saved plants.
 * @param first what comes before the import
 */
export function importAdvice(
  saved: string,
  store: string,
  first = "",
): string {
  return `stop the service, ${first}run the following command as its user, and ` +
    `start it again: ${
      shellCommand("plant-store", "import", saved, "--kv", store)
    }`;
}

/** Returns a command that renames the files of a store that exist. */
function moveAway(store: string, ...suffixes: readonly string[]): string {
  const real = resolveLinks(store);
  // One name for all: SQLite finds a log by the name of its database.
  const aside = nameAside(real);
  return suffixes.filter((suffix) => exists(real + suffix))
    .map((suffix) => shellCommand("mv", real + suffix, aside + suffix))
    .join(" && ");
}

/** Completes the advice to restore a backup of a store, beside saved plants. */
function adviseOnSaved(store: string): string {
  try {
    if (savedFilesOf(store).length === 0) return "";
  } catch {
    return "";
  }
  const command = moveAway(store, "", WAL_SUFFIX, SHM_SUFFIX);
  return `, and then import the saved plants, or import them alone after: ${command}`;
}

/** Returns what to do with the log beside a link. */
function adviseOnLog(store: string): string {
  const real = resolveLinks(store);
  if (exists(real + WAL_SUFFIX)) {
    const command = moveLog(store, nameAside);
    return `, and another one beside the database: move the former away: ${command}`;
  }
  const command = moveLog(store, (path) => real + path.slice(store.length));
  return ": if no service has used the database since it was moved, stop the " +
    `service and run: ${command}`;
}

/** Returns a command that renames the log beside a link, and its index. */
function moveLog(store: string, toNew: (path: string) => string): string {
  return [WAL_SUFFIX, SHM_SUFFIX].map((suffix) => store + suffix)
    .filter(exists)
    .map((path) => shellCommand("mv", "-n", path, toNew(path)))
    .join(" && ");
}

/** Returns a command for a POSIX shell. */
export function shellCommand(...words: readonly string[]): string {
  return words.map(quoteForShell).join(" ");
}

/**
 * Converts an error of a store.
 * @param action completes "cannot"
 */
export function storeFailure(
  action: string,
  location: StoreLocation,
  error: unknown,
  role: Role = "store",
): OperatorError {
  const converted = toStoreError(error, location);
  const [ofStore, ofBackup = ofStore] = ADVICE[converted.problem];
  const advice = role === "store" ? ofStore : ofBackup;
  const name = nameOf(location);
  const text = typeof advice === "string" ? advice : advice(converted, name);
  return new OperatorError(
    `cannot ${action} ${name}: ${converted.message}${text}`,
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
  if (error instanceof OperatorError) return error;
  const converted = toFileError(error);
  const who = converted.problem === "denied" ? asUser() : "";
  return new OperatorError(
    `cannot ${action} ${name}: ${converted.message}${who}`,
    exitStatusOf(converted),
  );
}

/** Names the user: an operator may run the command as the user of the service. */
function asUser(): string {
  try {
    return ` as user ${userInfo().username}`;
  } catch {
    // The user has no name.
    return "";
  }
}

/** Returns the name of a store for messages. */
export function nameOf(location: StoreLocation): string {
  return location.kind === "file" ? location.path : location.url;
}
