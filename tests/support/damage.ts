export * from "./accidents.ts";
