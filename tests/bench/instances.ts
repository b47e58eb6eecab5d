/**
 * Measures one, two and three instances on one file and on one KV Connect
 * server, behind nginx as src/deploy/ configures it, and one instance without
 * nginx. All processes share the cores of this machine, so the CPU time per
 * create of each part is what carries over to other machines.
 */
import { DENOKV, KV_ENV } from "../support/kv_server.ts";
import { NGINX, Nginx } from "../support/nginx.ts";
import type { Options } from "./main.ts";
import {
  cpuTimes,
  type Running,
  type Server,
  service,
  start,
} from "./servers.ts";
import { median, medianRatio, printTable, shuffled } from "./tables.ts";
import { load, type Size, WARM_UP_SECONDS } from "./wrk.ts";

const INSTANCES_MAX = 3;

const KV_SERVER: Server = {
  name: "denokv",
  command: (file) => [
    ...[DENOKV, "--sqlite-path", file, "serve", "--addr", "127.0.0.1:0"],
    ...["--access-token", KV_ENV.DENO_KV_ACCESS_TOKEN],
  ],
};

/** What is measured. */
interface Setup {
  readonly store: "file" | "denokv";
  readonly instances: number;
  readonly isProxied: boolean;
}

/** The result of one measurement. */
interface Result {
  readonly rate: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** CPU time per create of instances, nginx and denokv, in microseconds. */
  readonly cpuUs: readonly number[];
}

/** Prints the table, and reports whether every create was answered 200. */
export async function benchInstances(options: Options): Promise<boolean> {
  if (NGINX === "") console.error("NGINX names no nginx: measuring without it");
  if (!DENOKV) console.error("DENOKV names no denokv: measuring the file only");
  const setups = listSetups();
  const results = setups.map((): Result[] => []);
  for (let round = 1; round <= options.rounds; round++) {
    for (const [i, setup] of shuffled([...setups.entries()])) {
      const directory = await Deno.makeTempDir({ dir: options.directory });
      results[i]?.push(await measure(setup, directory, options));
      await Deno.remove(directory, { recursive: true });
    }
    console.error(`round ${round} is done`);
  }
  const [one = []] = results;
  printTable([
    [
      ...["store", "instances", "creates/s", "of one instance", "p99 ms"],
      ...["µs of instances", "µs of nginx", "µs of denokv", "errors"],
    ],
    ...setups.map((setup, i) => toRow(setup, results[i] ?? [], one)),
  ]);
  return results.flat().every(({ errors }) => errors === 0);
}

function listSetups(): Setup[] {
  const stores = DENOKV ? ["file", "denokv"] as const : ["file"] as const;
  return stores.flatMap((store) => {
    const direct = { store, instances: 1, isProxied: false };
    if (NGINX === "") return [direct];
    const proxied = Array.from(
      { length: INSTANCES_MAX },
      (_, i) => ({ store, instances: i + 1, isProxied: true }),
    );
    return [direct, ...proxied];
  });
}

/** Starts everything on a new store, loads it, and stops it. */
async function measure(
  { store, instances, isProxied }: Setup,
  directory: string,
  size: Size,
): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const file = `${directory}/plants.db`;
  const started = async (server: Server, store: string): Promise<Running> => {
    const running = await start(server, store, KV_ENV);
    stack.use(running.child);
    return running;
  };
  const denokv = store === "denokv"
    ? await started(KV_SERVER, file)
    : undefined;
  const services: Running[] = [];
  while (services.length < instances) {
    services.push(await started(service(), denokv?.url ?? file));
  }
  const ports = services.map(({ url }) => Number(new URL(url).port));
  const nginx = isProxied ? stack.use(await Nginx.start(ports)) : undefined;
  const [first] = services;
  if (first === undefined) throw new Error("no instance");
  const target = nginx === undefined
    ? first
    : { name: "nginx", url: nginx.origin, child: nginx };

  const ids = { ids: "rising" } as const;
  await load(target, ids, { ...size, seconds: WARM_UP_SECONDS });
  const kinds = [
    services.map(({ child }) => child.process.pid),
    nginx === undefined ? [] : withWorkers(nginx.process.pid),
    denokv === undefined ? [] : [denokv.child.process.pid],
  ];
  const before = kinds.map(cpuUs);
  const { rate, p99Ms, errors } = await load(target, ids, size);
  const perCreate = kinds.map((pids, i) =>
    (cpuUs(pids) - (before[i] ?? NaN)) / (rate * size.seconds)
  );
  return { rate, p99Ms, errors, cpuUs: perCreate };
}

/** Returns the CPU time of some processes so far, in microseconds. */
function cpuUs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuTimes(pid).process, 0);
}

/** Returns the id of a process and those of its child processes. */
function withWorkers(pid: number): number[] {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`);
    return [pid, ...text.trim().split(" ").map(Number)];
  } catch {
    // No /proc.
    return [pid];
  }
}

function toRow(
  { store, instances, isProxied }: Setup,
  results: readonly Result[],
  one: readonly Result[],
): string[] {
  const rates = (results: readonly Result[]) => results.map(({ rate }) => rate);
  const of = (select: (result: Result) => number, digits = 0) =>
    median(results.map(select)).toFixed(digits);
  return [
    store,
    isProxied ? `${instances}` : `${instances}, without nginx`,
    of(({ rate }) => rate),
    medianRatio(rates(results), rates(one)).toFixed(2),
    of(({ p99Ms }) => p99Ms, 1),
    ...[true, isProxied, store === "denokv"].map((isUsed, kind) =>
      isUsed ? of(({ cpuUs }) => cpuUs[kind] ?? NaN, 1) : ""
    ),
    String(results.reduce((sum, { errors }) => sum + errors, 0)),
  ];
}
