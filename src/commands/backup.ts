import { resolve } from "node:path";
import type { StoreSetting } from "../config/settings.ts";
import { fileFailure, storeFailure } from "../console/failures.ts";
import { FileError } from "../files/file_error.ts";
import { exists, setMode, statOrUndefined } from "../files/file_system.ts";
import { ProblemError } from "../files/problem.ts";
import { makeFile } from "../files/publish.ts";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { filesOf } from "../store/files/inspect.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Writes a complete copy of the store to a new file: its state at one point in
 * time, even while a service writes to it. The copy has its name when it is
 * verified and on disk.
 * @returns the exit status
 * @throws {OperatorError} if the copy cannot be made
 */
export async function backUp(
  store: StoreSetting,
  file: string,
): Promise<number> {
  if (store.kind === "server") {
    throw new OperatorError(
      `${store.url} is a KV Connect server, which has backups of its own: ` +
        "write its plants to a file with export",
    );
  }
  const target = resolve(file);
  try {
    // Also before the store is copied, which takes long.
    if (exists(target)) throw alreadyExists(target);
    refuseSidecars(target);
    const entries = await makeFile(target, async (partial) => {
      const entries = await copyStore(store.path, partial).catch((error) => {
        if (!(error instanceof ProblemError)) throw error;
        throw storeFailure("read", store, error);
      });
      setMode(partial, statOrUndefined(store.path));
      return entries;
    });
    writeStderr(
      `${target} is a complete copy, ${countOf(entries, "entry", "entries")}`,
    );
    return 0;
  } catch (error) {
    const isTaken = error instanceof FileError && error.problem === "exists";
    if (isTaken) throw alreadyExists(target);
    throw fileFailure("write", target, error);
  }
}

function alreadyExists(path: string): OperatorError {
  return new OperatorError(`${path} already exists: name a new file`);
}

/** Refuses a path that has files of another database beside it. */
function refuseSidecars(path: string): void {
  const [sidecar] = filesOf(path);
  if (sidecar === undefined) return;
  throw new OperatorError(
    `${sidecar} is left over from another database of that name, and SQLite would ` +
      "replay it into the copy: move it away, or name another file",
  );
}
