import { dirname, resolve } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { STORE_OPEN_MS_MAX } from "../limits.ts";
import { fileProblem } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { checkStoreExists, sidecarsOf } from "../store/database_file.ts";
import type { StoreLocation } from "../store/location.ts";
import { createDatabaseFile } from "../store/new_file.ts";
import { writeStderr } from "../telemetry/log.ts";
import { storeFailure } from "./store.ts";

/** More pages than a database can have, so that one step copies all of it. */
const PAGES_MAX = 2 ** 31 - 1;

/**
 * Writes a complete copy of the store to a new file: its state at one point in
 * time, even while a service writes to it.
 *
 * It uses SQLite's own backup, since `VACUUM INTO` needs every permission of
 * Deno. The copy gets its name when it is verified and on disk.
 *
 * @returns the exit status
 * @throws {OperatorError} if the copy cannot be made
 */
export async function backUp(
  location: StoreLocation,
  path: string,
): Promise<number> {
  if (location.kind === "server") {
    throw new OperatorError(
      `${location.url} is a KV Connect server, which has backups of its own: ` +
        "write its plants to a file with export",
    );
  }
  const target = resolve(path);
  let entries = 0;
  try {
    const isCreated = await createDatabaseFile(
      target,
      0o600,
      async (partial) => {
        checkNoSidecars(target);
        using source = openSource(location);
        await backup(source, partial, { rate: PAGES_MAX });
        entries = verify(partial, location.path);
        setMode(partial, location.path);
      },
    );
    if (!isCreated) {
      throw new OperatorError(`${target} already exists: name a new file`);
    }
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const reason = error instanceof Deno.errors.NotFound
      ? `no directory ${dirname(target)}`
      : fileProblem(error);
    throw new OperatorError(`cannot write ${target}: ${reason}`, EXIT_FAILURE);
  }
  writeStderr(`${target} is a complete copy, ${entries} entries`);
  return 0;
}

/** Refuses a path that has files of another database beside it. */
function checkNoSidecars(path: string): void {
  const [sidecar] = sidecarsOf(path);
  if (sidecar === undefined) return;
  throw new OperatorError(
    `${sidecar} is left over from another database of that name, and SQLite would ` +
      "replay it into the copy: move it away, or name another file",
  );
}

/**
 * Opens a store and reads from it, so that its errors are reported as such.
 *
 * A store with a log is opened read-only, since closing it would write the log
 * of a killed service into the database. Any other one is not: closing it
 * removes the files that SQLite may create beside it.
 */
function openSource(
  location: Extract<StoreLocation, { kind: "file" }>,
): DatabaseSync {
  try {
    checkStoreExists(location.path);
    const readOnly = sidecarsOf(location.path).length > 0;
    const source = new DatabaseSync(location.path, { readOnly });
    // A service that starts or stops locks the database for a moment.
    source.exec(`PRAGMA busy_timeout = ${STORE_OPEN_MS_MAX}`);
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    throw storeFailure("read", location, error);
  }
}

/** Gives a complete copy the permissions of the store. */
function setMode(path: string, original: string): void {
  try {
    Deno.chmodSync(path, (Deno.statSync(original).mode ?? 0o600) & 0o777);
  } catch {
    // The file system does not support permissions, such as FAT.
  }
}

/** Checks the integrity of a copy, and returns its number of entries. */
function verify(path: string, original: string): number {
  using copy = new DatabaseSync(path);
  // The copy is one file, without a log; opening it as a store creates one.
  copy.exec("PRAGMA journal_mode = DELETE");
  const check = copy.prepare("PRAGMA integrity_check").get();
  if (check?.integrity_check !== "ok") {
    throw new OperatorError(
      `${original} is corrupt, and its copy would be too: restore a backup`,
      EXIT_FAILURE,
    );
  }
  const row = copy.prepare("SELECT count(*) AS entries FROM kv").get();
  return Number(row?.entries);
}
