/** Stores of one plant, as the service and other programs leave them. */
import type { NewPlant } from "../../src/plant/plant.ts";
import { leaveWalMode } from "./damage.ts";
import { TemporaryDirectory } from "./temporary.ts";

/** The plant in these stores, unless a test gives others, and its key. */
export const KEY = ["plants", 1n];
export const PLANT = { name: "Monstera" };

/** Makes a store with plants, by default one, closed. */
export async function makeStore(
  path: string,
  plants: readonly NewPlant[] = [{ id: 1n, plant: PLANT }],
): Promise<void> {
  using kv = await Deno.openKv(path);
  for (let i = 0; i < plants.length; i += 100) {
    const some = kv.atomic();
    for (const it of plants.slice(i, i + 100)) {
      some.set(["plants", it.id], it.plant);
    }
    await some.commit();
  }
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
