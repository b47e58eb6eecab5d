import assert from "node:assert/strict";
import { on } from "node:events";
import { Worker } from "node:worker_threads";
import { FileError } from "../../files/file_error.ts";
import type { CopyReport, CopyTask } from "./copy_worker.ts";

/**
 * Copies a store with its log to one file: its state at one point in time, even
 * while a service writes to it. The copy is checked for corruption.
 *
 * It uses SQLite's own backup, since `VACUUM INTO` needs every permission of
 * Deno. The main thread can handle signals meanwhile.
 *
 * @param from the database file of the store
 * @param to an empty file
 * @param stop ends the copy, which leaves no files beside the store
 * @returns the number of entries: plants, unless other programs wrote to it, too
 * @throws {FileError} if the store cannot be read, or is corrupt
 * @throws {Error} if the copy cannot be written
 * @throws the reason of the signal
 */
export async function copyStore(
  from: string,
  to: string,
  stop: AbortSignal,
): Promise<number> {
  const stopped = Promise.withResolvers<never>();
  const isStopped = new Int32Array(new SharedArrayBuffer(4));
  stop.addEventListener("abort", () => {
    Atomics.store(isStopped, 0, 1);
    stopped.reject(stop.reason);
  });
  stopped.promise.catch(() => {});
  const task: CopyTask = { from, to, isStopped };
  const url = new URL("./copy_worker.ts", import.meta.url);
  const reports = on(new Worker(url, { workerData: task }), "message");
  async function next(): Promise<CopyReport> {
    const { value } = await reports.next();
    assert(value !== undefined);
    return value[0];
  }

  // After a stop, the thread still has to close both files.
  let report = await next();
  stop.throwIfAborted();
  if (report === "closed") {
    report = await Promise.race([next(), stopped.promise]);
  }
  assert(report !== "closed");
  if ("entries" in report) return report.entries;
  if ("writeProblem" in report) throw new Error(report.writeProblem);
  throw new FileError(report.problem, report.message);
}
