/** Measures creates with rising and with random ids. */
import type { Options } from "./main.ts";
import { preload, services, start } from "./servers.ts";
import { compareByTurns, type Subject } from "./turns.ts";

/** Prints the table, and reports whether every create was answered 200. */
export async function benchCreates(options: Options): Promise<boolean> {
  const { against, directory, plants } = options;
  const subjects: Subject[] = [];
  for (const each of services(against)) {
    for (const ids of ["rising", "random"] as const) {
      const store = `${directory}/${subjects.length}.db`;
      if (plants > 0) await preload(store, plants);
      const server = await start(each, store);
      subjects.push({ server, load: { ids }, title: `${ids} ids` });
    }
  }
  return await compareByTurns(subjects, options);
}
