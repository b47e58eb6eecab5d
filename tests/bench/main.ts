/**
 * Measures this service against two yardsticks, a bare JSON echo and a server
 * that makes one commit a request, and prints one table in Markdown.
 *
 * Machines are noisy and differ, so only the ratios count, and only those of
 * servers loaded within one round, by turns. Every measurement begins with a
 * new process and a new store.
 */
import { parseArgs } from "node:util";
import {
  ECHO,
  type Ids,
  measure,
  ONE_COMMIT,
  type Result,
  type Server,
  SERVICE,
  stopAll,
} from "./load.ts";

const USAGE = `usage: deno task bench [options]

  --seconds N        length of one measurement (5)
  --rounds N         rounds; the table shows their medians (3)
  --connections N,…  numbers of connections (1,64,256)
  --preload N        compare the service holding N plants with an empty one
  --dir DIR          where the databases go (the system's temporary directory)`;

// KV takes at most 100 checks in a commit; the preload keeps to the same size.
const PLANTS_PER_COMMIT = 100;
const COMMITS_IN_FLIGHT = 4;

const PLANT = { name: "Monstera deliciosa", tag: "climber" };

// Removed whatever happens.
let dir: string | undefined;

function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: "string", default: "5" },
      rounds: { type: "string", default: "3" },
      connections: { type: "string", default: "1,64,256" },
      preload: { type: "string", default: "0" },
      dir: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  return {
    ...values,
    seconds: readNumber("--seconds", values.seconds, 1),
    rounds: readNumber("--rounds", values.rounds, 1),
    preload: readNumber("--preload", values.preload, 0),
    connections: values.connections.split(",").map((text) =>
      readNumber("--connections", text, 1)
    ),
  };
}

function readNumber(flag: string, text: string, min: number): number {
  if (!/^\d{1,9}$/.test(text) || Number(text) < min) {
    throw new TypeError(`Cannot read ${flag} ${text}: give a whole number`);
  }
  return Number(text);
}

/** Fills a store with half rising ids and half ids from all over int64. */
async function preload(store: string, plants: number): Promise<void> {
  using kv = await Deno.openKv(store);
  let next = 0;
  async function fill(): Promise<void> {
    while (next < plants) {
      const commit = kv.atomic();
      const end = Math.min(next + PLANTS_PER_COMMIT, plants);
      for (; next < end; next++) {
        const number = BigInt(next);
        const spread = BigInt.asIntN(64, number * 0x9e3779b97f4a7c15n);
        commit.set(["plants", next % 2 ? spread : number], PLANT);
      }
      await commit.commit();
    }
  }
  await Promise.all(Array.from({ length: COMMITS_IN_FLIGHT }, fill));
}

function median(numbers: number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return ((sorted[Math.ceil(half) - 1] ?? NaN) +
    (sorted[Math.floor(half)] ?? NaN)) / 2;
}

/** Prints the table and says whether every request was answered with 200. */
async function bench(options: ReturnType<typeof readOptions>) {
  const { seconds, rounds } = options;
  dir = await Deno.makeTempDir({
    prefix: "plants-bench-",
    ...(options.dir && { dir: options.dir }),
  });
  let [servers, base] = [[ECHO, ONE_COMMIT, SERVICE], ONE_COMMIT];
  if (options.preload) {
    const name = `this service, ${options.preload} plants stored`;
    const full = { ...SERVICE, name, store: `${dir}/preloaded.db` };
    await preload(full.store, options.preload);
    [servers, base] = [[ECHO, SERVICE, full], SERVICE];
  }

  const results = new Map<string, Result[]>();
  const resultsOf = (server: Server, ids: Ids, connections: number) => {
    const key = [server.name, ids, connections].join();
    return results.get(key) ?? results.set(key, []).get(key) ?? [];
  };
  for (let round = 1; round <= rounds; round++) {
    for (const connections of options.connections) {
      for (const ids of ["rising", "random"] as const) {
        for (const server of servers.filter((each) => each.ids.includes(ids))) {
          const result = await measure(server, ids, {
            connections,
            seconds,
            dir,
          });
          resultsOf(server, ids, connections).push(result);
          console.error(
            `round ${round}, ${server.name}, ${ids} ids, ${connections}:`,
            `${Math.round(result.rate)}/s`,
          );
        }
      }
    }
  }

  const rows = [[
    ...["server", "ids", "connections", "creates/s", "p50 ms", "p99 ms"],
    ...["to echo", base === SERVICE ? "to empty" : "to one commit", "errors"],
  ]];
  let errors = 0;
  for (const connections of options.connections) {
    for (const server of servers) {
      for (const ids of server.ids) {
        const own = resultsOf(server, ids, connections);
        const ratioTo = (other: Result[]) =>
          median(own.map(({ rate }, i) => rate / (other[i]?.rate ?? NaN)))
            .toFixed(2);
        const failed = own.reduce((sum, result) => sum + result.errors, 0);
        errors += failed;
        rows.push([
          server.name,
          server === ECHO ? "any" : ids,
          String(connections),
          String(Math.round(median(own.map(({ rate }) => rate)))),
          (median(own.map(({ p50 }) => p50)) / 1000).toFixed(2),
          (median(own.map(({ p99 }) => p99)) / 1000).toFixed(2),
          ratioTo(resultsOf(ECHO, "rising", connections)),
          server === ECHO ? "" : ratioTo(resultsOf(base, ids, connections)),
          String(failed),
        ]);
      }
    }
  }
  rows.splice(1, 0, Array(rows[0]?.length).fill("---"));
  for (const row of rows) console.log(`| ${row.join(" | ")} |`);
  return errors === 0;
}

async function cleanUp(): Promise<void> {
  await stopAll();
  if (dir) await Deno.remove(dir, { recursive: true });
}

async function main(args: string[]): Promise<number> {
  let options;
  try {
    options = readOptions(args);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 2;
  }
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  try {
    await new Deno.Command("wrk", { args: ["-v"] }).output();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.error("Cannot find wrk, which makes the load: apt-get install wrk");
    return 1;
  }
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => cleanUp().then(() => Deno.exit(1)));
  }
  try {
    return await bench(options) ? 0 : 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  } finally {
    await cleanUp();
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
