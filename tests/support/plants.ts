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

/** Returns a create as the text of a body: ids exceed doubles. */
export function toBody({ id, plant }: NewPlant): string {
  return `{"id":${id},${JSON.stringify(plant).slice(1)}`;
}

/** Returns successive ids. */
export function range(first: bigint, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => first + BigInt(i));
}

/** Returns a plant for each id. */
export function newPlants(ids: readonly bigint[]): NewPlant[] {
  return ids.map((id) => ({ id, plant: { name: `Monstera ${id}` } }));
}
