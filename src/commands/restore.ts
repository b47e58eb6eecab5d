import { resolve } from "node:path";
import { countOf } from "../messages.ts";
import { OperatorError } from "../operator_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { leaveWalMode } from "../store/files/inspect.ts";
import {
  isSameFile,
  resolveLinks,
  statOrUndefined,
} from "../store/files/paths.ts";
import type { StoreLocation } from "../store/location.ts";
import { withPartialFile } from "../store/files/publish.ts";
import { openStoreToRead } from "../store/open.ts";
import { replaceStore } from "../store/files/replace.ts";
import { StoreError } from "../store/errors.ts";
import { writeStderr } from "../telemetry/log.ts";
import { orStopped } from "./signals.ts";
import { copyFailure, RESTORE_ADVICE, storeFailure } from "./store.ts";

/**
 * Puts a backup in place of the store, which no other process may have open. The
 * old store keeps a second name. A kill at any time leaves the old store or the
 * new one.
 * @param file a backup, or a copy of a stopped store with its log
 * @returns the exit status
 * @throws {OperatorError} if nothing was restored; then the store is unchanged
 */
export async function restore(
  location: StoreLocation,
  file: string,
): Promise<number> {
  const from = resolve(file);
  if (location.kind === "server") {
    throw new OperatorError(
      `${location.url} is a KV Connect server: export ${from}, and import ` +
        "its plants there",
    );
  }
  const real = resolveLinks(location.path);
  try {
    await withPartialFile(real, async (copy) => {
      const plants = await orStopped(copyReadable(from, copy, real));
      const old = await replaceStore(real, copy);
      const aboutOld = old === undefined ? "" : `; the old store is ${old}`;
      writeStderr(
        `restored ${
          countOf(plants, "plant")
        } from ${from} to ${real}${aboutOld}`,
      );
    });
  } catch (error) {
    throw copyFailure("replace", location, real, error);
  }
  return 0;
}

/**
 * Copies a backup that this Deno can read, and returns its number of plants.
 * @param store what the backup must not be
 */
async function copyReadable(
  from: string,
  to: string,
  store: string,
): Promise<number> {
  try {
    const source = statOrUndefined(from);
    if (source !== undefined && isSameFile(source, statOrUndefined(store))) {
      throw new OperatorError(
        `${from} is the store itself: name a backup of it`,
      );
    }
    const plants = await copyStore(from, to);
    (await openStoreToRead({ kind: "file", path: to })).close();
    leaveWalMode(to);
    return plants;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const source = { kind: "file", path: from } as const;
    const shown = error.problem === "corrupt"
      ? new StoreError("corrupt", "it is corrupt")
      : error;
    throw storeFailure("restore", source, shown, RESTORE_ADVICE);
  }
}
