/**
 * Measures what repeated creates cost, relative to creates alone: of the last
 * few thousand plants, as retries are, and of plants stored long ago.
 */
import type { Options } from "./main.ts";
import { preload, type Running, service, start, stop } from "./servers.ts";
import { median, medianRatio, printTable, shuffled } from "./tables.ts";
import { type Load, load, type Result } from "./wrk.ts";

const WARM_UP_SECONDS = 2;

/** Far more than the service remembers. */
const PRELOADED = 1_000_000;

const MIXES: readonly Pick<Load, "repeats" | "of">[] = [
  {},
  { repeats: 1, of: "recent" },
  { repeats: 10, of: "recent" },
  { repeats: 100, of: "recent" },
  { repeats: 1, of: "old" },
  { repeats: 10, of: "old" },
  { repeats: 100, of: "old" },
  { repeats: 100, of: "old-in-order" },
];

/** Prints the table, and reports whether every create was answered 200. */
export async function benchRepeats(options: Options): Promise<boolean> {
  const { against, connections, directory, seconds } = options;
  const preloaded = options.plants || PRELOADED;
  const servers = [
    service(),
    ...(against === undefined ? [] : [service(against)]),
  ];
  const original = `${directory}/preloaded.db`;
  await preload(original, preloaded);
  const rows = [[
    ...["server", "repeats", "connections", "creates/s", "p50 ms", "p99 ms"],
    ...["µs of JavaScript thread", "µs of process", "to creates alone"],
  ]];
  let errors = 0;
  for (const count of connections) {
    const running: Running[] = [];
    for (const [i, server] of servers.entries()) {
      const store = `${directory}/repeats-${count}-${i}.db`;
      await Deno.copyFile(original, store);
      running.push(await start(server, store));
    }
    const run = (
      server: Running,
      mix: Pick<Load, "repeats" | "of">,
      s: number,
    ) =>
      load(server, { ids: "rising", preloaded, ...mix }, {
        connections: count,
        seconds: s,
      });
    for (const server of running) await run(server, {}, WARM_UP_SECONDS);
    const results = running.map(() => MIXES.map((): Result[] => []));
    for (let round = 1; round <= options.rounds; round++) {
      for (const [m, mix] of shuffled([...MIXES.entries()])) {
        for (const [s, server] of shuffled([...running.entries()])) {
          results[s]?.[m]?.push(await run(server, mix, seconds));
        }
      }
      console.error(`${count} connections: round ${round} is done`);
    }
    await Promise.all(running.map(stop));
    for (const [s, { name }] of running.entries()) {
      const rates = (m: number) =>
        results[s]?.[m]?.map(({ rate }) => rate) ?? [];
      for (const [m, { repeats, of }] of MIXES.entries()) {
        const own = results[s]?.[m] ?? [];
        errors += own.reduce((sum, result) => sum + result.errors, 0);
        const mid = (select: (result: Result) => number, digits: number) =>
          median(own.map(select)).toFixed(digits);
        rows.push([
          name,
          repeats === undefined ? "none" : `${repeats} % ${of}`,
          String(count),
          mid(({ rate }) => rate, 0),
          mid(({ p50Ms }) => p50Ms, 2),
          mid(({ p99Ms }) => p99Ms, 2),
          mid(({ cpu }) => cpu.main, 1),
          mid(({ cpu }) => cpu.process, 1),
          medianRatio(rates(m), rates(0)).toFixed(2),
        ]);
      }
    }
  }
  printTable(rows);
  return errors === 0;
}
