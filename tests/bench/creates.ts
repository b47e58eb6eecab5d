/**
 * Compares creates with a bare JSON echo and with a server that makes one
 * commit a request. All servers run at the same time and are loaded in turn, in
 * short slices: on a noisy machine ratios are useful, and rates hardly are.
 */
import type { Options } from "./main.ts";
import {
  ECHO,
  ONE_COMMIT,
  preload,
  removeStore,
  type Running,
  type Server,
  service,
  start,
  stop,
} from "./servers.ts";
import { median, medianRatio, printTable, shuffled } from "./tables.ts";
import { type Load, load, type Result } from "./wrk.ts";

const WARM_UP_SECONDS = 2;

/** A server under a kind of load. */
interface Subject {
  readonly server: Server;
  readonly ids: Load["ids"];
  /** Compared with the same ids; absent for the yardsticks. */
  readonly base?: Subject;
  readonly results: Result[];
}

/** Prints the table, and reports whether every create was answered 200. */
export async function benchCreates(options: Options): Promise<boolean> {
  const { against, directory, plants } = options;
  const echo = subject(ECHO, "rising");
  const subjects = [echo];
  for (const ids of ["rising", "random"] as const) {
    const base = subject(ONE_COMMIT, ids);
    subjects.push(base, { ...subject(service(), ids), base });
    if (against === undefined) continue;
    subjects.push({ ...subject(service(against), ids), base });
  }
  const rows = [[
    ...["server", "ids", "connections", "creates/s", "p50 ms", "p99 ms"],
    ...["µs of JavaScript thread", "µs of process", "to echo"],
    ...["to one commit", "errors"],
  ]];
  let errors = 0;
  for (const connections of options.connections) {
    const running = new Map<Subject, Running>();
    for (const [i, each] of subjects.entries()) {
      const store = `${directory}/${i}.db`;
      await removeStore(store);
      if (plants > 0) await preload(store, plants);
      running.set(each, await start(each.server, store));
      each.results.length = 0;
    }
    const run = async (each: Subject, seconds: number) => {
      const server = running.get(each);
      if (server === undefined) throw new Error("not started");
      return await load(server, { ids: each.ids }, { connections, seconds });
    };
    for (const each of subjects) await run(each, WARM_UP_SECONDS);
    for (let round = 1; round <= options.rounds; round++) {
      for (const each of shuffled(subjects)) {
        each.results.push(await run(each, options.seconds));
      }
      console.error(`${connections} connections: round ${round} is done`);
    }
    await Promise.all([...running.values()].map(stop));
    for (const each of subjects) {
      const failed = each.results.reduce((sum, { errors }) => sum + errors, 0);
      errors += failed;
      rows.push(toRow(each, echo, connections, failed));
    }
  }
  printTable(rows);
  return errors === 0;
}

function subject(server: Server, ids: Load["ids"]): Subject {
  return { server, ids, results: [] };
}

function toRow(
  { server, ids, base, results }: Subject,
  echo: Subject,
  connections: number,
  failed: number,
): string[] {
  const rates = (results: readonly Result[]) => results.map(({ rate }) => rate);
  const of = (select: (result: Result) => number, digits: number) =>
    median(results.map(select)).toFixed(digits);
  return [
    server.name,
    ids,
    String(connections),
    of(({ rate }) => rate, 0),
    of(({ p50Ms }) => p50Ms, 2),
    of(({ p99Ms }) => p99Ms, 2),
    of(({ cpu }) => cpu.main, 1),
    of(({ cpu }) => cpu.process, 1),
    medianRatio(rates(results), rates(echo.results)).toFixed(2),
    base === undefined
      ? ""
      : medianRatio(rates(results), rates(base.results)).toFixed(2),
    String(failed),
  ];
}
