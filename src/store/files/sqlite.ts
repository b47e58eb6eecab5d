import { DatabaseSync } from "node:sqlite";

/** The first version without the WAL-reset bug (SQLite 3.51.3, release notes). */
const FIXED = [3, 51, 3];

/** Returns the version of the SQLite in this Deno, such as `3.53.2`. */
export function sqliteVersion(): string {
  using memory = new DatabaseSync(":memory:");
  return String(memory.prepare("SELECT sqlite_version() AS v").get()?.v);
}

/**
 * Returns whether a version of SQLite has no WAL-reset bug: one connection that
 * commits while another one writes the log into the database can corrupt it.
 */
export function hasFixedWalReset(version: string): boolean {
  const parts = version.split(".").map(Number);
  const differing = FIXED.findIndex((part, i) => parts[i] !== part);
  return differing < 0 || (parts[differing] ?? 0) > (FIXED[differing] ?? 0);
}
