import { fileFailure, storeFailure } from "../console/failures.ts";
import { countOf, toLine } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { realPathOf } from "../store/files/file_system.ts";
import { filesOf, SIDECAR_SUFFIXES } from "../store/files/inspect.ts";
import { makeFile } from "../store/files/publish.ts";
import type { StoreLocation } from "../store/location.ts";
import { StoreError } from "../store_error.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Writes a complete copy of the store to a new file: its state at one point in
 * time, even while a service writes to it. The copy has its name when it is
 * verified and on disk.
 * @returns the exit status
 * @throws {OperatorError} if the copy cannot be made
 */
export async function backUp(
  store: StoreLocation,
  file: string,
): Promise<number> {
  if (store.kind === "server") {
    throw new OperatorError(
      `${store.url} is a KV Connect server, which has backups of its own: ` +
        "write its plants to a file with export",
    );
  }
  const target = realPathOf(file);
  if (SIDECAR_SUFFIXES.some((suffix) => target.endsWith(suffix))) {
    throw new OperatorError(
      `cannot write ${target}: SQLite deletes files of such names: name ` +
        "another file",
    );
  }
  try {
    // SQLite would replay a log of that name into the copy.
    const [found] = filesOf(target);
    if (found !== undefined) {
      // It may be a live store: no advice to move it away.
      throw new OperatorError(`${found} already exists: name a new file`);
    }
    const entries = await makeFile(
      target,
      (partial) =>
        copyStore(store.path, partial).catch((error) => {
          if (!(error instanceof StoreError)) throw error;
          throw storeFailure("read", store, error);
        }),
    );
    const count = countOf(entries, "entry", "entries");
    writeStderr(toLine(`${target} is a complete copy, ${count}`));
    return 0;
  } catch (error) {
    throw fileFailure("write", target, error);
  }
}
