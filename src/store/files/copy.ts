import { backup, DatabaseSync } from "node:sqlite";
import { STORE_OPEN_MS_MAX } from "../../limits.ts";
import {
  filesOf,
  isIntact,
  isInWalMode,
  openToRead,
  requireStore,
  requireUsable,
} from "./inspect.ts";
import { StoreError, toStoreError } from "../../store_error.ts";

/**
 * Copies a store with its log to one file: its state at one point in time, even
 * while a service writes to it. The copy is checked for corruption.
 *
 * It uses SQLite's own backup, since `VACUUM INTO` needs every permission of
 * Deno. It blocks the thread: only the default action of a signal ends it.
 *
 * @param from the database file of the store
 * @param to an empty file
 * @returns the number of entries: plants, unless other programs wrote to it, too
 * @throws {StoreError} if the store cannot be read, or is corrupt
 * @throws the error of SQLite if the copy cannot be written
 */
export async function copyStore(from: string, to: string): Promise<number> {
  const source = openSource(from);
  try {
    // The log of a running service grows while the source is open.
    await backup(source, to).finally(() => source.close());
    return verify(to);
  } catch (error) {
    // The copy is as corrupt as its source.
    const converted = toStoreError(error);
    throw converted.kind === "corrupt" ? converted : error;
  }
}

/**
 * Takes a copy out of WAL mode, so that it is one file, and a log beside it is
 * known to belong to another database. Checks its integrity.
 * @returns its number of entries
 */
function verify(path: string): number {
  using copy = new DatabaseSync(path);
  copy.exec("PRAGMA journal_mode = DELETE");
  if (!isIntact(path)) throw new StoreError("corrupt");
  return Number(copy.prepare("SELECT count(*) AS n FROM kv").get()?.n);
}

/**
 * Opens a store and starts a read transaction: all parts of the copy are read in
 * it, so the writes of a service neither change nor restart the copy.
 */
function openSource(path: string): DatabaseSync {
  let source: DatabaseSync | undefined;
  try {
    // SQLite would leave a log beside a closed store that it cannot write.
    const isClosed = filesOf(path).length === 1;
    if (isClosed && isInWalMode(path)) requireUsable(path);
    requireStore(path);
    source = openToRead(path);
    // Another process may lock the database for a moment.
    source.exec(`PRAGMA busy_timeout = ${STORE_OPEN_MS_MAX}; BEGIN`);
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    source?.close();
    throw toStoreError(error);
  }
}
