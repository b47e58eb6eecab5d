/**
 * The thread of `copy.ts`: SQLite's calls block it, while the main thread handles
 * signals.
 */
import { backup, DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { STORE_OPEN_MS_MAX } from "../../limits.ts";
import { fileProblem } from "../../messages.ts";
import { leaveWalMode, openToRead, requireStore } from "./inspect.ts";
import { toOpenError } from "./diagnose.ts";
import { CORRUPT, StoreError, type StoreProblem } from "../errors.ts";

/** What the thread copies. */
export interface CopyTask {
  /** The database file of a store. */
  readonly from: string;
  /** An empty file. */
  readonly to: string;
}

/** The result of the thread: a copy, or why the one file or the other failed. */
export type CopyResult =
  | { readonly plants: number }
  | { readonly problem: StoreProblem; readonly message: string }
  | { readonly writeProblem: string };

/** More pages than a database can have, so that one step copies all of it. */
const PAGES_MAX = 2 ** 31 - 1;

/** The keys of Deno KV that start with the string "plants". */
const COUNT_PLANTS = `SELECT count(*) AS plants FROM kv
  WHERE k >= x'02706c616e747300' AND k < x'02706c616e747301'`;

/** Opens a store and reads from it, so that its errors are reported as such. */
function openSource(path: string): DatabaseSync {
  try {
    requireStore(path);
    const source = openToRead(path);
    // Another process may lock the database for a moment.
    source.exec(`PRAGMA busy_timeout = ${STORE_OPEN_MS_MAX}`);
    source.prepare("SELECT 1 FROM kv LIMIT 1").get();
    return source;
  } catch (error) {
    throw toOpenError(error, { kind: "file", path });
  }
}

/** Checks the integrity of a copy, and returns its number of plants. */
function verify(path: string): number {
  leaveWalMode(path);
  using copy = new DatabaseSync(path);
  const check = copy.prepare("PRAGMA integrity_check").get();
  if (check?.integrity_check !== "ok") {
    throw new StoreError("corrupt", CORRUPT);
  }
  return Number(copy.prepare(COUNT_PLANTS).get()?.plants);
}

async function copy({ from, to }: CopyTask): Promise<CopyResult> {
  try {
    using source = openSource(from);
    await backup(source, to, { rate: PAGES_MAX });
    return { plants: verify(to) };
  } catch (error) {
    if (!(error instanceof StoreError)) {
      return { writeProblem: fileProblem(error) };
    }
    const { problem, message } = error;
    return { problem, message };
  }
}

parentPort?.postMessage(await copy(workerData));
