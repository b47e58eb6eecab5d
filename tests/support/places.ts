/** Stores as the service leaves them. */
import type { NewPlant } from "../../src/plant/plant.ts";

/** The first table that Deno creates: an interrupted first start may leave no other. */
export const FIRST_TABLE = `CREATE TABLE migration_state (
  k integer not null primary key,
  version integer not null
)`;

/** Makes a store with plants, by default one, closed. */
export async function makeStore(
  path: string,
  plants: readonly NewPlant[] = [{ id: 1n, plant: { name: "Monstera" } }],
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
