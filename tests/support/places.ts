/** Stores of one plant, as the service and other programs leave them. */
import { leaveWalMode } from "./damage.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** The plant in these stores, and its key. */
export const KEY = ["plants", 1n];
export const PLANT = { name: "Monstera" };

/** Makes a store with one plant, closed. */
export async function makeStore(path: string): Promise<void> {
  using kv = await Deno.openKv(path);
  await kv.set(KEY, PLANT);
}

/** Makes the log of a store that was killed, and nothing else. */
export async function makeLog(path: string): Promise<void> {
  using directory = new TemporaryDirectory();
  using kv = await Deno.openKv(directory.file("other.db"));
  await kv.set(KEY, { name: "Ficus" });
  Deno.copyFileSync(directory.file("other.db-wal"), path);
}

/** Makes a store of one file that is not in WAL mode, as a backup is. */
export async function makeBackup(path: string): Promise<void> {
  await makeStore(path);
  leaveWalMode(path);
}
