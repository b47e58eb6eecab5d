import { fileFailure } from "../console/failures.ts";
import { countOf, toLine } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { realPathOf, statOrUndefined } from "../store/files/file_system.ts";
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
      return entries;
    });
    const what = `${countOf(entries, "entry", "entries")} from ${from}`;
    writeStderr(toLine(`restored ${what} to ${path}`));
    return 0;
  } catch (error) {
    throw fileFailure("write", path, error);
  }
}

/** Refuses to restore where files of a store are. @throws {StoreError} */
function refuseExisting(path: string): void {
  if (statOrUndefined(path)?.isDirectory) {
    throw new StoreError("path", "it is a directory");
  }
  const files = filesOf(path);
  if (files.length === 0) return;
  throw new StoreError(
    "path",
    `a store is there, or a part of one: stop the service, and move away ${
      files.join(", ")
    }`,
  );
}
