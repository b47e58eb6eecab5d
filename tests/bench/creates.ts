/**
 * Compares creates with a bare JSON echo and with a server that makes one
 * commit a request.
 */
import type { Options } from "./main.ts";
import {
  ECHO,
  ONE_COMMIT,
  preload,
  type Server,
  service,
  start,
} from "./servers.ts";
import { compareByTurns, type Subject } from "./turns.ts";

/** Prints the table, and reports whether every create was answered 200. */
export async function benchCreates(options: Options): Promise<boolean> {
  const { against, directory, plants } = options;
  const subjects: Subject[] = [];
  async function add(
    server: Server,
    ids: "rising" | "random",
    bases: Subject["bases"] = {},
  ): Promise<Subject> {
    const store = `${directory}/${subjects.length}.db`;
    if (plants > 0) await preload(store, plants);
    const running = await start(server, store);
    const title = `${ids} ids`;
    const subject = { server: running, load: { ids }, title, bases };
    subjects.push(subject);
    return subject;
  }
  const echo = await add(ECHO, "rising");
  for (const ids of ["rising", "random"] as const) {
    const bases = { echo, "one commit": await add(ONE_COMMIT, ids, { echo }) };
    if (against === undefined) {
      await add(service(), ids, bases);
    } else {
      const other = await add(service(against), ids, bases);
      await add(service(), ids, { ...bases, "the other": other });
    }
  }
  return await compareByTurns(subjects, options);
}
