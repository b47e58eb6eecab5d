import { resolve } from "node:path";
import { fileFailure, storeFailure } from "../console/failures.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { FileError } from "../files/file_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { sidecarsOf } from "../store/files/inspect.ts";
import { exists, setMode, statOrUndefined } from "../files/file_system.ts";
import { publish, withPartialFile } from "../files/publish.ts";
import type { StoreLocation } from "../store/location.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Writes a complete copy of the store to a new file: its state at one point in
 * time, even while a service writes to it. The copy has its name when it is
 * verified and on disk.
 * @returns the exit status: 1 if a power cut may take the name away
 * @throws {OperatorError} if the copy cannot be made
 */
export async function backUp(
  location: StoreLocation,
  file: string,
): Promise<number> {
  if (location.kind === "server") {
    throw new OperatorError(
      `${location.url} is a KV Connect server, which has backups of its own: ` +
        "write its plants to a file with export",
    );
  }
  const { path } = location;
  const target = resolve(file);
  if (exists(target)) throw alreadyExists(target);
  try {
    return await withPartialFile(target, async (partial) => {
      refuseSidecars(target);
      const entries = await copyStore(path, partial).catch((error) => {
        if (!(error instanceof FileError)) throw error;
        throw storeFailure("read", location, error);
      });
      setMode(partial, statOrUndefined(path));
      const unsynced = publish(partial, target);
      const copy = `${target} is a complete copy, ${
        countOf(entries, "entry", "entries")
      }`;
      writeStderr(unsynced === undefined ? copy : `${copy}: ${unsynced}`);
      return unsynced === undefined ? 0 : EXIT_FAILURE;
    });
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
  const [sidecar] = sidecarsOf(path);
  if (sidecar === undefined) return;
  throw new OperatorError(
    `${sidecar} is left over from another database of that name, and SQLite would ` +
      "replay it into the copy: move it away, or name another file",
  );
}
