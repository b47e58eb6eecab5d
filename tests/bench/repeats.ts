/**
 * Measures what repeated creates cost, relative to creates alone: of the last
 * few thousand plants, as retries are, and of plants stored long ago.
 */
import type { Options } from "./main.ts";
import { preload, services, start } from "./servers.ts";
import { compareByTurns, type Subject } from "./turns.ts";
import type { Load } from "./wrk.ts";

const PRELOADED = 1_000_000;

const MIXES: Readonly<Record<string, Pick<Load, "repeats" | "of">>> = {
  "1 % recent": { repeats: 1, of: "recent" },
  "10 % recent": { repeats: 10, of: "recent" },
  "all recent": { repeats: 100, of: "recent" },
  "10 % old": { repeats: 10, of: "old" },
};

/** Prints the table, and reports whether every create was answered 200. */
export async function benchRepeats(options: Options): Promise<boolean> {
  const { against, directory } = options;
  const preloaded = options.plants || PRELOADED;
  const original = `${directory}/preloaded.db`;
  await preload(original, preloaded);
  const subjects: Subject[] = [];
  for (const each of services(against)) {
    const store = `${directory}/${subjects.length}.db`;
    await Deno.copyFile(original, store);
    const server = await start(each, store);
    const ids = "rising" as const;
    const alone = { server, load: { ids }, title: "new creates" };
    subjects.push(alone);
    for (const [title, mix] of Object.entries(MIXES)) {
      const load = { ids, preloaded, ...mix };
      subjects.push({ server, load, title, alone });
    }
  }
  return await compareByTurns(subjects, options);
}
