/** Starts the servers that the benches measure, and reads their CPU times. */
import { BackgroundProcess } from "../support/background.ts";
import { inheritedEnv, TOKEN } from "../support/program.ts";

const HERE = import.meta.dirname ?? ".";

/** A program to measure. */
export interface Server {
  readonly name: string;
  /** Returns the command for a store. */
  readonly command: (store: string) => string[];
}

/** A running program. */
export interface Running {
  readonly name: string;
  readonly url: string;
  readonly child: BackgroundProcess;
}

/** CPU times of a process, in microseconds. */
export interface CpuTimes {
  /** Of the thread that runs JavaScript. */
  readonly main: number;
  readonly process: number;
}

/** Returns the service of another checkout, or of this one. */
export function service(checkout?: string): Server {
  const binary = checkout === undefined
    ? Deno.env.get("PLANT_STORE")
    : undefined;
  const main = `${checkout ?? `${HERE}/../..`}/main.ts`;
  const program = binary === undefined
    ? [Deno.execPath(), "run", "--no-prompt", "--allow-all", main]
    : [binary];
  return {
    name: checkout === undefined
      ? "this service"
      : `the service of ${checkout}`,
    command: (store) => [...program, "--port", "0", "--kv", store],
  };
}

/** Returns the service of another checkout, if given, and that of this one. */
export function services(against: string | undefined): Server[] {
  return against === undefined ? [service()] : [service(against), service()];
}

const started: BackgroundProcess[] = [];

/** Starts a program, and waits for the line that names its address. */
export async function start(
  { name, command }: Server,
  store: string,
): Promise<Running> {
  const [program = "", ...args] = command(store);
  const child = new BackgroundProcess(program, {
    args,
    cwd: `${HERE}/../..`,
    clearEnv: true,
    env: { ...inheritedEnv(), ACCESS_TOKEN: TOKEN },
  });
  started.push(child);
  const [url] = await child.printed(/http:\/\/127\.0\.0\.1:\d+(?=\s)/);
  return { name, url, child };
}

/** Kills every program that still runs. */
export async function stopAll(): Promise<void> {
  await Promise.all(started.map((child) => child.stop("SIGKILL")));
}

/**
 * Reads the CPU times of a process (Linux only; zeros elsewhere). They vary
 * far less between runs than rates do.
 */
export function cpuTimes(pid: number): CpuTimes {
  let main = 0;
  let process = 0;
  try {
    for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
      const path = `/proc/${pid}/task/${name}/schedstat`;
      const microseconds = Number.parseInt(Deno.readTextFileSync(path)) / 1000;
      process += microseconds;
      if (Number(name) === pid) main = microseconds;
    }
  } catch {
    // No /proc, or a thread that ended meanwhile.
  }
  return { main, process };
}

/** Reads one of the service's metrics. */
export async function metric(url: string, name: string): Promise<number> {
  const headers = { "authorization": `Bearer ${TOKEN}` };
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  const line = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length));
}

/** Fills a store with plants of rising ids from 0, as an old store has them. */
export async function preload(store: string, plants: number): Promise<void> {
  const plant = { name: "Monstera deliciosa", tag: "climber" };
  using kv = await Deno.openKv(store);
  let next = 0;
  async function fill(): Promise<void> {
    while (next < plants) {
      const commit = kv.atomic();
      const end = Math.min(next + 100, plants);
      for (; next < end; next++) commit.set(["plants", BigInt(next)], plant);
      await commit.commit();
    }
  }
  await Promise.all([fill(), fill()]);
}
