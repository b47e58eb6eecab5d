import type { Plant } from "../../src/plant/plant.ts";

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
