/** Plants: as values, as JSON, in files of lines, and in stores. */
import { BODY_BYTES_MAX, ID_MIN } from "../../src/limits.ts";
import type { NewPlant, Plant } from "../../src/plant/plant.ts";

/** A plant with every member. */
export const WHOLE: Required<Plant> = { name: "Monstera", tag: "climber" };

/** The members of a plant. */
export const PLANT_MEMBERS: readonly string[] = Object.keys(WHOLE);

/** Plants that a program could take for one another. */
export const SIMILAR_PLANTS: readonly Plant[] = [
  { name: "" },
  { name: "", tag: "" },
  { name: "ab" },
  { name: "ab", tag: "" },
  { name: "ab " },
  { name: "Ab" },
  { name: "a", tag: "b" },
  { name: "", tag: "ab" },
  { name: "竹🌿\0" },
];

const LONGEST = "n".repeat(
  BODY_BYTES_MAX - `{"id":${ID_MIN},"name":""}`.length,
);

/** The longest plants that fit a body with every id. */
export const LONGEST_PLANTS: readonly Plant[] = [
  { name: LONGEST },
  { name: LONGEST.replace(/.$/, "m") },
];

/** Returns successive ids. */
export function range(first: bigint, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => first + BigInt(i));
}

/** Returns a plant for each id. */
export function newPlants(ids: readonly bigint[]): NewPlant[] {
  return ids.map((id) => ({ id, plant: { name: `Monstera ${id}` } }));
}

/**
 * Returns the JSON text of a plant: the body of a create, and its line in an
 * export. Ids exceed doubles.
 */
export function toJson({ id, plant }: NewPlant): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`;
}

/** Returns plants as an export writes them. */
export function toLines(plants: readonly NewPlant[]): string {
  return plants.map((plant) => `${toJson(plant)}\n`).join("");
}

/** Writes a file with these lines and returns its path. */
export function writeLines(path: string, lines: readonly string[]): string {
  Deno.writeTextFileSync(path, lines.map((line) => `${line}\n`).join(""));
  return path;
}

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

/**
 * The first table that Deno creates: an interrupted first start may leave no
 * other.
 */
export const FIRST_TABLE = `CREATE TABLE migration_state (
  k integer not null primary key,
  version integer not null
)`;

/** A key of a store and its value. */
export type Entry = readonly [key: Deno.KvKey, value: unknown];

/** Returns everything in a store, in the order of keys. */
export async function entriesOf(kv: Deno.Kv): Promise<Entry[]> {
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  return entries.map(({ key, value }) => [key, value]);
}

/** Returns everything in a store in a file. */
export async function entriesIn(path: string): Promise<Entry[]> {
  using kv = await Deno.openKv(path);
  return await entriesOf(kv);
}
