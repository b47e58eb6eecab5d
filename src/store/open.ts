/** Opens stores: all that differs between a file and a KV Connect server. */
import { dirname } from "node:path";
import { errorMessage, toLine, truncate } from "../text.ts";
import {
  inspect,
  lstatOrUndefined,
  type PathContent,
  WAL_SUFFIX,
} from "./files/inspect.ts";
import { WatchedFiles } from "./files/watch.ts";
import { type CommitBounds, type Connection, KvStore } from "./kv_store.ts";
import { retryWhileLocked } from "./retry.ts";
import { isDamage, StoreError, toStoreError } from "./store_error.ts";

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

/** Time for the store to open and to accept a write, besides the time to copy its WAL. */
export const STORE_OPEN_MS_MAX = 9_000;

/**
 * Speed at which the first write copies the WAL (the write-ahead log) of a killed
 * service into the database, on a slow disk. It has gigabytes if another program was
 * reading the store for long.
 */
export const WAL_BYTES_PER_MS_MIN = 10_000;

/** Time after which an operator wants to know why a store is not open yet. */
export const DELAY_MS_MIN = 1_000;

/**
 * Minimum size of a WAL that explains a delay. The WAL of a running service is
 * smaller: a delay beside it is a wait for the lock.
 */
export const LARGE_WAL_BYTES = DELAY_MS_MIN * WAL_BYTES_PER_MS_MIN;

/** Maximum length of a message of a server, in UTF-16 code units. */
const MESSAGE_CHARS_MAX = 200;

/** How to open a store. */
export interface OpenOptions {
  /** Called if a large WAL is copied into the store, which delays the opening. */
  readonly onDelay?: (reason: string) => void;
  /** Replaced by tests. */
  readonly connect?: (location: StoreLocation) => Promise<Connection>;
  /** Replaced by tests. */
  readonly timeoutFor?: (walBytes: number) => number;
}

/**
 * Opens a store to create plants.
 * @param mayCreate whether to create a store in a missing or an empty file
 * @returns the store, and whether its file was missing or empty
 * @throws {StoreError}
 */
export function openStore(
  location: StoreLocation,
  mayCreate: boolean,
  options?: OpenOptions,
): Promise<{ readonly store: KvStore; readonly isNew: boolean }> {
  return twiceIfCorrupt(async () => {
    // A KV Connect server always has a store.
    let content: PathContent = "store";
    if (location.kind === "file") {
      content = inspectToCreate(location.name, mayCreate);
      if (content === "nothing") createFile(location.name);
    }
    // A read-only file opens without an error, and fails at the first write.
    const store = await open(location, (store) => store.probe(), options);
    return { store, isNew: content !== "store" };
  });
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
    const content = inspectToCreate(name, mayCreate);
    if (content === "nothing" && !Deno.statSync(dirname(name)).isDirectory) {
      // The same message as that of a start.
      throw new StoreError("path", "Not a directory (os error 20)");
    }
    return content !== "store";
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
  return twiceIfCorrupt(() => {
    if (location.kind === "file") {
      requireStore("path", inspect(location.name));
    }
    return open(location, readOnce, options);
  });
}

/** Inspects the path of a file for {@link openStore}. */
function inspectToCreate(path: string, mayCreate: boolean): PathContent {
  const content = inspect(path);
  if (!mayCreate) requireStore("no store", content);
  return content;
}

/** Requires a store at a path. @throws {StoreError} of the kind, if there is none */
function requireStore(kind: "no store" | "path", content: PathContent): void {
  if (content === "store") return;
  const problem = content === "nothing" ? "no such file" : "it is empty";
  throw new StoreError(kind, problem);
}

/**
 * Creates an empty file for the user of the service only. SQLite would create it
 * for all, and also at a path that Deno refuses at the next start.
 */
function createFile(path: string): void {
  Deno.openSync(path, { write: true, create: true, mode: 0o600 }).close();
}

/**
 * Waits until Deno has set up a store, for which it needs the lock. Damage is ignored
 * here, because the listing reports it.
 */
async function readOnce(store: KvStore): Promise<void> {
  try {
    await store.read([0n]);
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
}

/**
 * Opens a store, once more if it is corrupt, because SQLite reports a failed read in the
 * same way.
 * @throws {StoreError}
 */
async function twiceIfCorrupt<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await attempt();
    } catch (thrown) {
      // What is not a StoreError yet is an error of the file system.
      const error = toStoreError(thrown);
      if (error.kind !== "corrupt" || tries === 2) throw error;
    }
  }
}

/**
 * Connects to a store in bounded time. While another process has the lock, the
 * connection and its first operation are tried again.
 * @param operate performs the first operation, which may take any time
 */
async function open(
  location: StoreLocation,
  operate: (store: KvStore) => Promise<void>,
  {
    onDelay = () => {},
    connect = connectTo,
    timeoutFor = openMsMax,
  }: OpenOptions = {},
): Promise<KvStore> {
  const walBytes = walBytesOf(location);
  const delay = setTimeout(() => {
    if (walBytes >= LARGE_WAL_BYTES) onDelay(explainDelay(walBytes));
  }, DELAY_MS_MIN);
  try {
    return await retryWhileLocked(timeoutFor(walBytes), async () => {
      const store = new KvStore(await connect(location));
      try {
        store.verifyFiles();
        await operate(store);
        return store;
      } catch (error) {
        store.close();
        throw error;
      }
    });
  } finally {
    clearTimeout(delay);
  }
}

/** Returns the time for a store to open beside the WAL that a killed service left. */
export function openMsMax(walBytes: number): number {
  return STORE_OPEN_MS_MAX + Math.round(walBytes / WAL_BYTES_PER_MS_MIN);
}

/** Returns the size of the WAL of a file, 0 if there is none. */
function walBytesOf({ kind, name }: StoreLocation): number {
  const wal = kind === "file" ? lstatOrUndefined(name + WAL_SUFFIX) : undefined;
  return wal?.size ?? 0;
}

function explainDelay(walBytes: number): string {
  const size = walBytes < 1e9
    ? `${Math.round(walBytes / 1e6)} MB`
    : `${(walBytes / 1e9).toFixed(1)} GB`;
  return `copying the write-ahead log (${size}) into the store, which can take minutes`;
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
    const kv = await Deno.openKv(path);
    return {
      kv,
      commitBounds: COMMITS_FILE,
      repeatsWrites: false,
      // The files beside the database are there only now.
      files: new WatchedFiles(path, database),
      recognize: toStoreError,
    };
  } catch (error) {
    throw toStoreError(error);
  }
}

async function connectToServer(
  { name: url, token }: ServerLocation,
): Promise<Connection> {
  const recognize = (error: unknown) => toServerError(error, token);
  // Deno reads the token from the environment only.
  Deno.env.set(KV_TOKEN_VARIABLE, token);
  try {
    return {
      kv: await Deno.openKv(url),
      commitBounds: COMMITS_SERVER,
      repeatsWrites: true,
      files: undefined,
      recognize,
    };
  } catch (error) {
    throw recognize(error);
  }
}

/**
 * Recognizes an error of an operation on a server. Its message can contain anything,
 * even the token. So the token is masked, and the message is put on one line and
 * truncated.
 */
export function toServerError(error: unknown, token: string): StoreError {
  const recognized = toStoreError(error);
  // Deno decodes values here, not on the server.
  if (recognized.kind === "newer format") return recognized;
  const masked = errorMessage(error).replaceAll(token, "[token]");
  return new StoreError("other", truncate(toLine(masked), MESSAGE_CHARS_MAX));
}
