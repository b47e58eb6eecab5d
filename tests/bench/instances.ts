/**
 * Measures one, two and three instances on one file and on one KV Connect
 * server, behind nginx as deploy/ configures it, and one instance without
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
  stop,
} from "./servers.ts";
import { median, printTable, shuffled } from "./tables.ts";
import { load } from "./wrk.ts";

const WARM_UP_SECONDS = 2;

const INSTANCES_MAX = 3;

const KV_SERVER: Server = {
  name: "denokv",
  command: (file) => [
    ...[DENOKV ?? "", "--sqlite-path", file, "serve", "--addr", "127.0.0.1:0"],
    ...["--access-token", KV_ENV.DENO_KV_ACCESS_TOKEN],
  ],
};

/** What is measured. */
interface Setup {
  readonly store: "file" | "denokv";
  readonly instances: number;
  readonly isProxied: boolean;
}

/** Something of each kind of process. */
type PerKind<T> = Readonly<Record<"instances" | "nginx" | "denokv", T>>;

/** The result of one measurement. */
interface Result {
  readonly rate: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** CPU time per create, in microseconds. */
  readonly cpuUs: PerKind<number>;
}

/** Prints the table, and reports whether every create was answered 200. */
export async function benchInstances(options: Options): Promise<boolean> {
  if (NGINX === "") console.error("NGINX names no nginx: measuring without it");
  if (!DENOKV) console.error("DENOKV names no denokv: measuring the file only");
  const setups = listSetups();
  const rows = [[
    ...["store", "instances", "connections", "creates/s", "p99 ms"],
    ...["µs of instances", "µs of nginx", "µs of denokv", "errors"],
  ]];
  let errors = 0;
  for (const connections of options.connections) {
    const results = setups.map((): Result[] => []);
    for (let round = 1; round <= options.rounds; round++) {
      for (const [i, setup] of shuffled([...setups.entries()])) {
        const directory = await Deno.makeTempDir({ dir: options.directory });
        const { seconds } = options;
        const size = { connections, seconds };
        results[i]?.push(await measure(setup, directory, size));
        await Deno.remove(directory, { recursive: true });
      }
      console.error(`${connections} connections: round ${round} is done`);
    }
    for (const [i, setup] of setups.entries()) {
      const own = results[i] ?? [];
      const failed = own.reduce((sum, { errors }) => sum + errors, 0);
      errors += failed;
      rows.push(toRow(setup, connections, own, failed));
    }
  }
  printTable(rows);
  return errors === 0;
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
  size: { connections: number; seconds: number },
): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const file = `${directory}/plants.db`;
  const started = async (server: Server, store: string): Promise<Running> => {
    const running = await start(server, store, KV_ENV);
    stack.defer(() => stop(running));
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
    : { name: "nginx", url: nginx.origin, child: nginx.process };

  const ids = { ids: "rising" } as const;
  await load(target, ids, { ...size, seconds: WARM_UP_SECONDS });
  const pids: PerKind<readonly number[]> = {
    instances: services.map(({ child }) => child.pid),
    nginx: nginx === undefined ? [] : withWorkers(nginx.process.pid),
    denokv: denokv === undefined ? [] : [denokv.child.pid],
  };
  const before = mapValues(pids, cpuUs);
  const { rate, p99Ms, errors } = await load(target, ids, size);
  const after = mapValues(pids, cpuUs);
  const creates = rate * size.seconds;
  return {
    rate,
    p99Ms,
    errors,
    cpuUs: {
      instances: (after.instances - before.instances) / creates,
      nginx: (after.nginx - before.nginx) / creates,
      denokv: (after.denokv - before.denokv) / creates,
    },
  };
}

function mapValues<T, U>(
  { instances, nginx, denokv }: PerKind<T>,
  map: (value: T) => U,
): PerKind<U> {
  return {
    instances: map(instances),
    nginx: map(nginx),
    denokv: map(denokv),
  };
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
  connections: number,
  results: readonly Result[],
  failed: number,
): string[] {
  const of = (select: (result: Result) => number, digits = 0) =>
    median(results.map(select)).toFixed(digits);
  return [
    store,
    isProxied ? `${instances}` : `${instances}, without nginx`,
    String(connections),
    of(({ rate }) => rate),
    of(({ p99Ms }) => p99Ms, 1),
    of(({ cpuUs }) => cpuUs.instances, 1),
    isProxied ? of(({ cpuUs }) => cpuUs.nginx, 1) : "",
    store === "denokv" ? of(({ cpuUs }) => cpuUs.denokv, 1) : "",
    String(failed),
  ];
}
