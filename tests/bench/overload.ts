/**
 * Measures what clients get above the capacity, and how soon the service has
 * recovered afterwards. The server has a fifth of a core (a cgroup), since
 * otherwise the generator of the load would be the bottleneck: a row is valid
 * only where the load lags far less than the deadline of a create.
 */
import type { Options } from "./main.ts";
import { OpenLoop, type Second } from "./open_loop.ts";
import {
  ECHO,
  type Running,
  type Server,
  service,
  start,
  stop,
} from "./servers.ts";
import { printTable } from "./tables.ts";
import { load } from "./wrk.ts";

const QUOTA = 0.2;

/** Short, since the server sleeps for the rest of each period. */
const PERIOD_US = 20_000;

/** Rates, relative to the capacity. */
const OVERLOADS = [0.75, 1.5, 2];
const AFTERWARDS = 0.25;
const WARM_UP = 0.5;

const WARM_UP_SECONDS = 3;
const OVERLOAD_SECONDS = 10;
const AFTERWARDS_SECONDS = 5;

/** Prints the table. */
export async function benchOverload(options: Options): Promise<boolean> {
  const { against, directory } = options;
  const rows = [[
    ...["server", "capacity/s", "load", "useful/s", "of capacity"],
    "lag of the load",
    ...Array.from(
      { length: AFTERWARDS_SECONDS },
      (_, second) => `on time in second ${second + 1} after`,
    ),
  ]];
  const servers = [
    service(),
    ...(against === undefined ? [] : [service(against)]),
    ECHO,
  ];
  for (const [i, server] of servers.entries()) {
    for (const overload of OVERLOADS) {
      const store = `${directory}/overload-${i}-${overload}.db`;
      rows.push(await measure(server, store, overload));
      console.error(rows.at(-1)?.join(", "));
    }
  }
  printTable(rows);
  return true;
}

async function measure(
  server: Server,
  store: string,
  overload: number,
): Promise<string[]> {
  const running = await start(server, store);
  // Compile the code before the quota applies.
  const wrk = { connections: 64, seconds: 3 };
  await load(running, { ids: "rising" }, wrk);
  using _quota = new CpuQuota(running);
  const { rate } = await load(running, { ids: "rising" }, {
    ...wrk,
    seconds: 5,
  });
  const clients = new OpenLoop(running.url, 1);
  // The load must be compiled too: at first it would lag.
  await clients.run(Math.round(WARM_UP * rate), WARM_UP_SECONDS);
  clients.lagMsMax = 0;
  const during = await clients.run(
    Math.round(overload * rate),
    OVERLOAD_SECONDS,
  );
  const after = await clients.run(
    Math.round(AFTERWARDS * rate),
    AFTERWARDS_SECONDS,
  );
  clients.close();
  await stop(running);
  const useful = during.reduce((sum, { useful }) => sum + useful, 0) /
    OVERLOAD_SECONDS;
  return [
    server.name,
    rate.toFixed(0),
    `${overload}`,
    useful.toFixed(0),
    (useful / rate).toFixed(2),
    `${clients.lagMsMax.toFixed(0)} ms`,
    ...after.map(onTime),
  ];
}

function onTime({ useful, late }: Second): string {
  return `${Math.round(100 * useful / (useful + late))} %`;
}

/** A limit of CPU time for a process, until it is disposed of (Linux, root). */
class CpuQuota implements Disposable {
  readonly #group: string;

  constructor({ child }: Running) {
    const isUnified = exists("/sys/fs/cgroup/cgroup.controllers");
    const parent = isUnified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    this.#group = `${parent}/plant-store-bench-${child.pid}`;
    try {
      Deno.mkdirSync(this.#group);
      const quotaUs = QUOTA * PERIOD_US;
      if (isUnified) {
        this.#write("cpu.max", `${quotaUs} ${PERIOD_US}`);
      } else {
        this.#write("cpu.cfs_period_us", `${PERIOD_US}`);
        this.#write("cpu.cfs_quota_us", `${quotaUs}`);
      }
      this.#write("cgroup.procs", `${child.pid}`);
    } catch (error) {
      throw new Error("cannot limit the CPU time: run as root on Linux", {
        cause: error,
      });
    }
  }

  #write(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.#group}/${name}`, text);
  }

  [Symbol.dispose](): void {
    try {
      Deno.removeSync(this.#group);
    } catch {
      // The kernel removes the process from it a moment later.
    }
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
