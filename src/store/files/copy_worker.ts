/**
 * The thread of `copy.ts`: SQLite's calls block it, while the main thread handles
 * signals.
 */
import { backup, DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { COPY_PAGES, STORE_OPEN_MS_MAX } from "../../limits.ts";
import { errorMessage } from "../../messages.ts";
import { FileError, type FileProblem } from "../../files/file_error.ts";
import { diagnose } from "./diagnose.ts";
import { leaveWalMode, openToRead, requireStore } from "./inspect.ts";

/** What the thread copies. */
export interface CopyTask {
  /** The database file of a store. */
  readonly from: string;
  /** An empty file. */
  readonly to: string;
  /** Not 0 when the copy must stop. */
  readonly isStopped: Int32Array;
}

/**
 * What the thread reports: that it has closed the store and the copy, and then
 * the number of entries in it; or why the one file or the other failed.
 */
export type CopyReport =
  | "closed"
  | { readonly entries: number }
  | { readonly problem: FileProblem; readonly message: string }
  | { readonly writeProblem: string };

/** Opens a store and starts a read transaction, so that its errors are its own. */
function openSource(path: string): DatabaseSync {
  try {
    requireStore(path);
    const source = openToRead(path);
    // Another process may lock the database for a moment.
    source.exec(`PRAGMA busy_timeout = ${STORE_OPEN_MS_MAX}; BEGIN`);
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    throw diagnose(error, path);
  }
}

/**
 * Copies a store. All parts of the copy are read in one transaction, so writes
 * of a service meanwhile neither change nor restart it.
 */
async function copy({ from, to, isStopped }: CopyTask): Promise<void> {
  {
    using source = openSource(from);
    await backup(source, to, {
      rate: COPY_PAGES,
      progress() {
        if (Atomics.load(isStopped, 0) !== 0) throw new Error("stopped");
      },
    });
  }
  leaveWalMode(to);
}

/**
 * Checks the integrity of a copy, and returns its number of entries. It may take
 * long, and creates no file, so the main thread may remove the copy meanwhile.
 */
function verify(path: string): number {
  using copy = new DatabaseSync(path, { readOnly: true });
  const check = copy.prepare("PRAGMA integrity_check").get();
  if (check?.integrity_check !== "ok") throw new FileError("corrupt");
  return Number(copy.prepare("SELECT count(*) AS n FROM kv").get()?.n);
}

function report(message: CopyReport): void {
  parentPort?.postMessage(message);
}

try {
  await copy(workerData);
  report("closed");
  report({ entries: verify(workerData.to) });
} catch (error) {
  report(
    error instanceof FileError
      ? { problem: error.problem, message: error.message }
      : { writeProblem: errorMessage(error) },
  );
}
