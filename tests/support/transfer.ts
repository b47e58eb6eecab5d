export { writeLines } from "./plants.ts";
export { exportLines, importFile } from "./program.ts";
import type { Random } from "./random.ts";

export const drawId = (random: Random): bigint => random.int64();
