import { resolve } from "node:path";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { sidecarsOf } from "../store/files/inspect.ts";
import type { StoreLocation } from "../store/location.ts";
import { exists, setMode, statOrUndefined } from "../store/files/paths.ts";
import { publish, withPartialFile } from "../store/files/publish.ts";
import { writeStderr } from "../telemetry/log.ts";
import { orStopped } from "./signals.ts";
import { copyFailure } from "./store.ts";

/**
 * Writes a complete copy of the store to a new file: its state at one point in
 * time, even while a service writes to it. The copy gets its name when it is
 * verified and on disk.
 * @returns the exit status
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
  const target = resolve(file);
  if (exists(target)) throw alreadyExists(target);
  try {
    await withPartialFile(target, async (partial) => {
      refuseSidecars(target);
      const plants = await orStopped(copyStore(location.path, partial));
      setMode(partial, statOrUndefined(location.path));
      if (!publish(partial, target)) throw alreadyExists(target);
      writeStderr(`${target} is a complete copy, ${countOf(plants, "plant")}`);
    });
  } catch (error) {
    throw copyFailure("read", location, target, error);
  }
  return 0;
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
