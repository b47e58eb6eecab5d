/**
 * Measures this service against two yardsticks, a bare JSON echo and a server
 * that makes one commit a request, and prints one table in Markdown.
 *
 * Machines are noisy and differ, so only the ratios count, and only those of
 * servers loaded within one round, by turns. Every measurement begins with a
 * new process and a new store.
 */
import { parseArgs } from "node:util";

const USAGE = `usage: deno task bench [options]

  --seconds N        length of one measurement (5)
  --rounds N         rounds; the table shows their medians (3)
  --connections N,…  numbers of connections (1,64,256)
  --preload N        compare the service holding N plants with an empty one
  --dir DIR          where the databases go (the system's temporary directory)`;

const WARM_UP = { connections: 64, seconds: 1 };
const START_SECONDS_MAX = 10;
const TOKEN = "bench";

// More ids than any measurement sends. The preloaded ones lie below the first.
const IDS_PER_RUN = 1e10;

// KV takes at most 100 checks in a commit; the preload keeps to the same size.
const PLANTS_PER_COMMIT = 100;
const COMMITS_IN_FLIGHT = 4;

const PLANT = { name: "Monstera deliciosa", tag: "climber" };

const HERE = import.meta.dirname ?? ".";

type Ids = "rising" | "random";

interface Server {
  name: string;
  ids: Ids[];
  args(store: string): string[];
  /** A store that stays from round to round, in place of a new one. */
  store?: string;
}

interface Result {
  rate: number;
  p50: number;
  p99: number;
  errors: number;
}

const ECHO: Server = {
  name: "echo",
  // It does not look at the ids.
  ids: ["rising"],
  args: () => [`${HERE}/echo.ts`],
};

const ONE_COMMIT: Server = {
  name: "one commit a request",
  ids: ["rising", "random"],
  args: (store) => [`${HERE}/one_commit.ts`, store],
};

const SERVICE: Server = {
  name: "this service",
  ids: ["rising", "random"],
  args: (store) => [`${HERE}/../../main.ts`, "--port", "0", "--kv", store],
};

/** Ended and removed whatever happens. */
const children = new Set<Deno.ChildProcess>();
let dir: string | undefined;

let runs = 0;

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

async function start(server: Server, store: string) {
  const home = Deno.env.get("DENO_DIR") ?? Deno.env.get("HOME") ?? store;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "-A", ...server.args(store)],
    cwd: `${HERE}/../..`,
    // Whatever else is set must not configure the servers.
    clearEnv: true,
    env: { ACCESS_TOKEN: TOKEN, DENO_DIR: home, HOME: home },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  children.add(child);
  const timer = setTimeout(() => child.kill(), START_SECONDS_MAX * 1000);
  const lines = child.stderr.pipeThrough(new TextDecoderStream());
  let printed = "";
  let url: string | undefined;
  for await (const text of lines.values({ preventCancel: true })) {
    printed += text;
    url = printed.match(/http:\/\/127\.0\.0\.1:\d+(?=\s)/)?.[0];
    if (url) break;
  }
  clearTimeout(timer);
  if (!url) throw new Error(`Cannot start ${server.name}: ${printed}`);
  // Read on, or a server that prints more than a pipe holds would stop.
  lines.pipeTo(new WritableStream()).catch(() => {});
  return { child, url };
}

async function stop(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended already.
  }
  await child.status;
  children.delete(child);
}

async function load(
  url: string,
  ids: Ids,
  { connections, seconds }: { connections: number; seconds: number },
): Promise<Result> {
  const from = String(++runs * IDS_PER_RUN);
  const { stdout, stderr } = await new Deno.Command("wrk", {
    args: ["-t1", `-c${connections}`, `-d${seconds}s`, "-s", `${HERE}/load.lua`]
      .concat(url, "--", ids, from, TOKEN),
  }).output();
  const text = new TextDecoder().decode(stdout);
  const numbers = text.match(/^result .*$/m)?.[0].match(/[\d.]+(?= |$)/g);
  const [rate, p50, p99, refused, broken] = (numbers ?? []).map(Number);
  if (
    rate === undefined || p50 === undefined || p99 === undefined ||
    refused === undefined || broken === undefined
  ) {
    throw new Error(`wrk failed: ${text}${new TextDecoder().decode(stderr)}`);
  }
  return { rate, p50, p99, errors: refused + broken };
}

async function measure(
  server: Server,
  ids: Ids,
  options: { connections: number; seconds: number },
): Promise<Result> {
  const store = server.store ?? `${dir}/${runs}.db`;
  const { child, url } = await start(server, store);
  try {
    const warm = await load(url, ids, WARM_UP);
    const result = await load(url, ids, options);
    return { ...result, errors: warm.errors + result.errors };
  } finally {
    await stop(child);
    if (store !== server.store) await removeStore(store);
  }
}

async function removeStore(store: string): Promise<void> {
  for (const suffix of ["", "-wal", "-shm"]) {
    await Deno.remove(store + suffix).catch(() => {});
  }
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

function format(rows: string[][]): string {
  const widths =
    rows[0]?.map((_, column) =>
      Math.max(...rows.map((row) => row[column]?.length ?? 0))
    ) ?? [];
  const line = (row: string[]) =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  const rule = widths.map((width) => "-".repeat(width));
  return [...rows.slice(0, 1), rule, ...rows.slice(1)].map(line).join("\n");
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
          const result = await measure(server, ids, { connections, seconds });
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
  console.log(format(rows));
  return errors === 0;
}

async function cleanUp(): Promise<void> {
  await Promise.all([...children].map(stop));
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
