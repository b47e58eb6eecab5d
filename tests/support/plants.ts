import { BODY_BYTES_MAX, ID_MIN } from "../../src/limits.ts";
import type { Plant } from "../../src/plant/plant.ts";

/** A plant with every member, and one that differs in each of them. */
export const WHOLE: Required<Plant> = { name: "Monstera", tag: "climber" };
export const OTHER: Required<Plant> = { name: "Ficus", tag: "" };

/** The members of a plant, and those that are strings. */
export const PLANT_MEMBERS: readonly string[] = Object.keys(WHOLE);
export const STRING_MEMBERS: readonly string[] = Object.entries(WHOLE)
  .filter(([, value]: [string, unknown]) => typeof value === "string")
  .map(([name]) => name);

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
