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

/**
 * Where plants are stored, and the flag or variable that says so, for messages. A file
 * is an SQLite database in WAL mode. Its name is a path without links, because Deno
 * 2.9.7 and later open no other one. The name of a KV Connect server is its URL.
 */
export type StoreLocation =
  | { readonly kind: "file"; readonly name: string; readonly setting: string }
  | {
    readonly kind: "server";
    readonly name: string;
    readonly setting: string;
    readonly token: string;
  };

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

/** Maximum length of a message of a server, in UTF-16 code units. */
const MESSAGE_CHARS_MAX = 200;

/** How to open a store; tests replace it. */
interface OpenOptions {
  readonly connect?: (location: StoreLocation) => Promise<Connection>;
  readonly timeoutMs?: number;
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
      content = inspectFile(location.name, mayCreate);
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
  location: StoreLocation,
  mayCreate: boolean,
): boolean {
  if (location.kind === "server") return false;
  try {
    const content = inspectFile(location.name, mayCreate);
    const directory = dirname(location.name);
    if (content === "nothing" && !Deno.statSync(directory).isDirectory) {
      // Throws the error of a start.
      Deno.lstatSync(location.name);
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
    if (location.kind === "file") inspectFile(location.name, false);
    return open(location, readOnce, options);
  });
}

/** Inspects a file. @throws {StoreError} if it is no store and may not become one */
function inspectFile(path: string, mayCreate: boolean): PathContent {
  const content = inspect(path);
  if (content === "store" || mayCreate) return content;
  const problem = content === "nothing" ? "no such file" : "it is empty";
  throw new StoreError("no store", problem);
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
  { connect = connectTo, timeoutMs = openMsMax(location) }: OpenOptions = {},
): Promise<KvStore> {
  return await retryWhileLocked(timeoutMs, async () => {
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
}

/** Returns the time for a store to open beside the WAL that a killed service left. */
export function openMsMax({ kind, name }: StoreLocation): number {
  const wal = kind === "file" ? lstatOrUndefined(name + WAL_SUFFIX) : undefined;
  const copyMs = Math.round((wal?.size ?? 0) / WAL_BYTES_PER_MS_MIN);
  return STORE_OPEN_MS_MAX + copyMs;
}

/** Connects to a location, which may take any time. @throws {StoreError} */
export async function connectTo(location: StoreLocation): Promise<Connection> {
  const recognize = location.kind === "file"
    ? toStoreError
    : (error: unknown) => toServerError(error, location.token);
  try {
    if (location.kind === "server") {
      // Deno reads the token from the environment only.
      Deno.env.set(KV_TOKEN_VARIABLE, location.token);
      return {
        kv: await Deno.openKv(location.name),
        commitBounds: COMMITS_SERVER,
        repeatsWrites: true,
        files: undefined,
        recognize,
      };
    }
    // The file may be replaced while it is opened.
    const database = lstatOrUndefined(location.name);
    return {
      kv: await Deno.openKv(location.name),
      commitBounds: COMMITS_FILE,
      repeatsWrites: false,
      // The files beside the database are there only now.
      files: new WatchedFiles(location.name, database),
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
  return new StoreError("server", truncate(toLine(masked), MESSAGE_CHARS_MAX));
}
