import { resolve } from "node:path";
import { fileFailure, storeFailure } from "../console/failures.ts";
import { countOf } from "../messages.ts";
import { EXIT_FAILURE, OperatorError } from "../operator_error.ts";
import { FileError } from "../files/file_error.ts";
import { copyStore } from "../store/files/copy.ts";
import { leaveWalMode, refuseLogBesideLink } from "../store/files/inspect.ts";
import {
  exists,
  isSameFile,
  resolveLinks,
  statOrUndefined,
} from "../files/file_system.ts";
import { withPartialFile } from "../files/publish.ts";
import { type Replaced, replaceStore } from "../store/files/replace.ts";
import type { StoreLocation } from "../store/location.ts";
import { openStoreToRead } from "../store/open.ts";
import { writeStderr } from "../telemetry/log.ts";

/**
 * Puts a backup in place of the store, which no other process may have open. The
 * old store keeps a second name. A kill at any time leaves the old store or the
 * new one.
 * @param file a backup, or a copy of a stopped store with its log
 * @param mayCreate whether to create a missing store: not at the default path,
 * since a service in another directory would not use it
 * @returns the exit status: 1 if a power cut may bring the old store back
 * @throws {OperatorError} if nothing was restored; then the store has the same
 * plants as before, but its log may have been written into it
 */
export async function restore(
  location: StoreLocation,
  file: string,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<number> {
  const from = resolve(file);
  if (location.kind === "server") {
    throw new OperatorError(
      `${location.url} is a KV Connect server: export ${from}, and import ` +
        "its plants there",
    );
  }
  const real = resolveLinks(location.path);
  refuseSameFile(from, real);
  if (!mayCreate && !exists(real)) {
    throw storeFailure("replace", location, new FileError("missing"));
  }
  try {
    return await withPartialFile(real, async (copy) => {
      const entries = await copyReadable(from, copy);
      const replaced = replace(location, real, copy);
      const what = `${countOf(entries, "entry", "entries")} from ${from}`;
      writeStderr(`restored ${what} to ${real}${describe(replaced)}`);
      return replaced.unsynced === undefined ? 0 : EXIT_FAILURE;
    });
  } catch (error) {
    throw fileFailure("write", real, error);
  }
}

/** Replaces the store at a location by a copy. @throws {OperatorError} */
function replace(
  location: StoreLocation & { kind: "file" },
  real: string,
  copy: string,
): Replaced {
  try {
    refuseLogBesideLink(location.path);
    return replaceStore(real, copy);
  } catch (error) {
    throw storeFailure("replace", location, error);
  }
}

/** Refuses to restore the store itself. @throws {OperatorError} */
function refuseSameFile(from: string, real: string): void {
  let isSame = false;
  try {
    isSame = isSameFile(Deno.statSync(from), statOrUndefined(real));
  } catch {
    // Copying it, or replacing the store, reports the problem.
  }
  if (!isSame) return;
  throw new OperatorError(`${from} is the store itself: name a backup of it`);
}

/** Copies a backup that this Deno can read; returns its number of entries. */
async function copyReadable(from: string, to: string): Promise<number> {
  try {
    const entries = await copyStore(from, to);
    const store = await openStoreToRead({ kind: "file", path: to });
    store.close();
    if (store.damage !== undefined) throw store.damage;
    leaveWalMode(to);
    return entries;
  } catch (error) {
    throw error instanceof FileError ? backupFailure(from, error) : error;
  }
}

/** Converts an error of a backup. */
function backupFailure(from: string, error: FileError): OperatorError {
  const shown = error.problem === "corrupt"
    ? new FileError("corrupt", "it is corrupt")
    : error;
  const source = { kind: "file", path: from } as const;
  return storeFailure("restore", source, shown, "backup");
}

/** Completes the message about a restored store. */
function describe({ old, log, unsynced }: Replaced): string {
  const parts = [
    old === undefined
      ? ", a new store: there was none"
      : `; the old store is ${old}`,
    log === undefined ? "" : `; the log of a missing one is ${log}`,
    unsynced === undefined ? "" : `; ${unsynced}`,
  ];
  return parts.join("");
}
