import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { CopyResult, CopyTask } from "./copy_worker.ts";
import { StoreError } from "../errors.ts";

/**
 * Copies a store with its log to one file: its state at one point in time, even
 * while a service writes to it. The copy is checked for corruption.
 *
 * It uses SQLite's own backup, since `VACUUM INTO` needs every permission of
 * Deno. The main thread can handle signals meanwhile.
 *
 * @param from the database file of the store
 * @param to an empty file
 * @returns the number of plants
 * @throws {StoreError} if the store cannot be read, or is corrupt
 * @throws {Error} if the copy cannot be written
 */
export async function copyStore(from: string, to: string): Promise<number> {
  const task: CopyTask = { from, to };
  const url = new URL("./copy_worker.ts", import.meta.url);
  const worker = new Worker(url, { workerData: task });
  const result: CopyResult = (await once(worker, "message"))[0];
  if ("plants" in result) return result.plants;
  if ("problem" in result) throw new StoreError(result.problem, result.message);
  throw new Error(result.writeProblem);
}
