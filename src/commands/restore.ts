import { dirname } from "node:path";
import { fileFailure } from "../console/failures.ts";
import { countOf, quoteForShell, toLine } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import {
  realPathOf,
  setOwner,
  statOrUndefined,
} from "../store/files/file_system.ts";
import { filesOf } from "../store/files/inspect.ts";
import { makeFile } from "../store/files/publish.ts";
import type { StoreLocation } from "../store/location.ts";
import { StoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Makes a new store from a backup. It refuses a path where files of a store are,
 * but only when the backup is copied and checked: no store is moved away for a
 * backup that cannot be used.
 * @param file a backup, or a copy of a stopped store with its log
 * @returns the exit status
 * @throws {OperatorError} if there is no new store
 */
export async function restore(
  store: StoreLocation,
  file: string,
): Promise<number> {
  const from = realPathOf(file);
  if (store.kind === "server") {
    throw new OperatorError(
      `${store.url} is a KV Connect server: export ${from}, and import its ` +
        "plants there",
    );
  }
  const { path } = store;
  try {
    const entries = await makeFile(path, async (copy) => {
      const entries = await copyStore(from, copy).catch((error) => {
        if (!(error instanceof StoreError)) throw error;
        throw fileFailure("restore", from, error);
      });
      refuseExisting(path);
      // Root restores the store of the service.
      setOwner(copy, Deno.statSync(dirname(path)));
      return entries;
    });
    const what = `${countOf(entries, "entry", "entries")} from ${from}`;
    writeStderr(toLine(`restored ${what} to ${path}`));
    return 0;
  } catch (error) {
    throw fileFailure("write", path, error);
  }
}

/**
 * Refuses to restore where files of a store are. They are renamed together, since
 * SQLite finds a log by the name of its database.
 * @throws {StoreError} if a directory is there
 * @throws {OperatorError} if files of a store are
 */
function refuseExisting(path: string): void {
  const found = statOrUndefined(path);
  if (found?.isDirectory) throw new StoreError("path", "it is a directory");
  if (found?.isSymlink) {
    throw new StoreError("path", "it is a link to a missing file");
  }
  const files = filesOf(path);
  if (files.length === 0) return;
  const old = `${path}.old-${new Date().toISOString().replaceAll(":", "")}`;
  const commands = files.map((file) => {
    const renamed = old + file.slice(path.length);
    return `mv ${quoteForShell(file)} ${quoteForShell(renamed)}`;
  });
  throw new OperatorError(
    `cannot restore to ${path}: a store is there, or a part of one: stop the ` +
      `service, move it away, and repeat: ${commands.join(" && ")}`,
  );
}
