/** Opens stores: all that differs between a file and a KV Connect server. */
import { dirname } from "node:path";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { errorMessage, toLine, truncate } from "../text.ts";
import { lstatOrUndefined } from "./files/file_system.ts";
import { type Found, inspect, WAL_SUFFIX } from "./files/inspect.ts";
import { WatchedFiles } from "./files/watch.ts";
import { type CommitBounds, type Connection, KvStore } from "./kv_store.ts";
import { retryWhileLocked } from "./retry.ts";
import {
  elsewhere,
  StoreError,
  type StoreErrorKind,
  toStoreError,
} from "./store_error.ts";

/** The variable with the token of a KV Connect server: Deno's own. */
export const KV_TOKEN_VARIABLE = "DENO_KV_ACCESS_TOKEN";

/** A store in a file: an SQLite database in WAL mode. */
interface FileLocation {
  readonly kind: "file";
  /** Absolute, without links: since 2.9.7, Deno opens no path with a link in it. */
  readonly name: string;
}

/** A store on a KV Connect server. */
interface ServerLocation {
  readonly kind: "server";
  /** The URL. */
  readonly name: string;
  readonly token: string;
}

/** Where plants are stored. */
export type StoreLocation = FileLocation | ServerLocation;

/**
 * For a file: Deno KV allows 100 checks. SQLite writes with one thread, which the
 * second commit keeps busy.
 */
export const COMMITS_FILE: CommitBounds = { plantsMax: 100, inFlightMax: 2 };

/**
 * For a KV Connect server: it allows 10 checks, and is faster with more commits in
 * flight, up to a point.
 */
const COMMITS_SERVER: CommitBounds = { plantsMax: 10, inFlightMax: 16 };

/** Time for the store to open and to accept a first write, apart from its log. */
export const STORE_OPEN_MS_MAX = 9_000;

/**
 * Speed at which the first write copies the log of a killed service into the
 * database, on a slow disk. The log has gigabytes if another program was reading
 * the store for long.
 */
export const LOG_BYTES_PER_MS_MIN = 10_000;

/** Variables of Deno: it opens memory, or another file, in place of a file. */
export const REPLACING_VARIABLES = ["DENO_KV_DB_MODE", "DENO_KV_PATH_PREFIX"];

/** Maximum length of a message of a server, in UTF-16 code units. */
const MESSAGE_CHARS_MAX = 200;

/** What tests replace. */
interface OpenOptions {
  readonly clock?: Clock;
  readonly connect?: (location: StoreLocation) => Promise<Connection>;
}

/**
 * Opens a store to create plants.
 * @param mayCreate whether to create a store in a missing or an empty file
 * @returns the store, and whether its file was missing or empty
 * @throws {StoreError}
 */
export async function openStore(
  location: StoreLocation,
  mayCreate: boolean,
  options?: OpenOptions,
): Promise<{ readonly store: KvStore; readonly isNew: boolean }> {
  let isNew = false;
  function prepare(path: string): void {
    const found = inspect(path);
    if (!mayCreate) requireStore(found, "no store");
    // A later try finds the store that the first one has begun.
    isNew ||= found !== "store";
    if (found !== "nothing") return;
    // For the user of the service only. SQLite would create it for all, and also at
    // a path that Deno refuses at the next start.
    Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
  }
  // A read-only file opens without an error, and fails at the first write.
  const store = await open(location, prepare, (it) => it.probe(), options);
  return { store, isNew };
}

/**
 * Returns whether {@link openStore} would create a store, without opening one. It
 * does not ask a KV Connect server.
 * @throws {StoreError} the error of `openStore()`, if the files show it
 */
export function wouldCreateStore(
  { kind, name }: StoreLocation,
  mayCreate: boolean,
): boolean {
  if (kind === "server") return false;
  try {
    const found = inspect(name);
    if (!mayCreate) requireStore(found, "no store");
    if (found === "nothing" && !Deno.statSync(dirname(name)).isDirectory) {
      throw new Deno.errors.NotADirectory("Not a directory (os error 20)");
    }
    return found !== "store";
  } catch (error) {
    throw toStoreError(error);
  }
}

/**
 * Opens an existing store to read or to remove plants.
 * @throws {StoreError}
 */
export function openExistingStore(
  location: StoreLocation,
  options?: OpenOptions,
): Promise<KvStore> {
  const prepare = (path: string) => requireStore(inspect(path), "path");
  // While another process has the lock, Deno's first writes wait, and this read
  // waits for them. What is damaged is reported when it is listed.
  async function readOnce(store: KvStore): Promise<void> {
    try {
      await store.read([0n]);
    } catch (error) {
      if (!(error instanceof StoreError && error.isDamage)) throw error;
    }
  }
  return open(location, prepare, readOnce, options);
}

/** Refuses a path without a store. @throws {StoreError} of a kind */
function requireStore(found: Found, kind: StoreErrorKind): void {
  if (found === "nothing") throw new StoreError(kind, "no such file");
  if (found === "empty") throw new StoreError(kind, "it is empty");
}

/**
 * Opens a store in bounded time. Repeats it while another process has the lock, and
 * once if the store is corrupt: SQLite reports a failed read in the same way.
 * @param prepare inspects the path of a file before Deno opens it
 * @param operate performs the first operation, which may take any time
 * @throws {StoreError}
 */
async function open(
  location: StoreLocation,
  prepare: (path: string) => void,
  operate: (store: KvStore) => Promise<void>,
  { clock = SYSTEM_CLOCK, connect = connectTo }: OpenOptions = {},
): Promise<KvStore> {
  async function openOnce(): Promise<KvStore> {
    if (location.kind === "file") {
      // The files of a killed service, or of a running one, would pass every check.
      if (REPLACING_VARIABLES.some((it) => Deno.env.get(it))) throw elsewhere();
      prepare(location.name);
    }
    const store = new KvStore(await connect(location), clock);
    try {
      store.verifyFiles();
      await operate(store);
      return store;
    } catch (error) {
      store.close();
      throw error;
    }
  }
  for (let tries = 1;; tries++) {
    try {
      return await retryWhileLocked(openMsMax(location), clock, openOnce);
    } catch (thrown) {
      // What is not converted yet is an error of the file system.
      const error = toStoreError(thrown);
      if (error.kind !== "corrupt" || tries === 2) throw error;
    }
  }
}

/** Returns the time for a store to open: more if a killed service left a large log. */
function openMsMax({ kind, name }: StoreLocation): number {
  const log = kind === "file" ? lstatOrUndefined(name + WAL_SUFFIX) : undefined;
  const logMs = (log?.size ?? 0) / LOG_BYTES_PER_MS_MIN;
  return STORE_OPEN_MS_MAX + Math.round(logMs);
}

/** Connects to a location, which may take any time. @throws {StoreError} */
export function connectTo(location: StoreLocation): Promise<Connection> {
  return location.kind === "file"
    ? connectToFile(location)
    : connectToServer(location);
}

async function connectToFile(
  { name: path }: FileLocation,
): Promise<Connection> {
  try {
    // The file may be replaced while it is opened.
    const database = lstatOrUndefined(path);
    return {
      kv: await Deno.openKv(path),
      commitBounds: COMMITS_FILE,
      files: new WatchedFiles(path, database),
      toStoreError,
    };
  } catch (error) {
    throw toStoreError(error);
  }
}

async function connectToServer(
  { name: url, token }: ServerLocation,
): Promise<Connection> {
  const convert = (error: unknown) => serverError(error, token);
  // Deno reads the token from the environment only.
  Deno.env.set(KV_TOKEN_VARIABLE, token);
  try {
    return {
      kv: await Deno.openKv(url),
      commitBounds: COMMITS_SERVER,
      files: undefined,
      toStoreError: convert,
    };
  } catch (error) {
    throw convert(error);
  }
}

/**
 * Converts an error of an operation on a server. Its message can contain anything,
 * even the token. So the token is masked, and the message is put on one line and
 * truncated.
 */
export function serverError(error: unknown, token: string): StoreError {
  const converted = toStoreError(error);
  // Deno decodes values here, not on the server.
  const isOwn = error instanceof StoreError ||
    converted.kind === "newer format";
  if (isOwn) return converted;
  const masked = errorMessage(error).replaceAll(token, "[token]");
  return new StoreError("other", truncate(toLine(masked), MESSAGE_CHARS_MAX));
}
