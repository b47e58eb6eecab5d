export * from "./plants.ts";
