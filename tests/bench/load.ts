/** Starts the servers that the bench compares and puts load on them with wrk. */

const WARM_UP_SECONDS = 1;
const START_SECONDS_MAX = 10;
/** The token of every server of the bench. */
export const TOKEN = "bench";

// More ids than any run sends. The preloaded ones lie below the first.
const IDS_PER_RUN = 1e10;

const HERE = import.meta.dirname ?? ".";

export type Ids = "rising" | "random";

export interface Server {
  name: string;
  ids: Ids[];
  args(store: string): string[];
  /** A store that stays from round to round, in place of a new one. */
  store?: string;
}

export interface Result {
  rate: number;
  p50: number;
  p99: number;
  errors: number;
}

export const ECHO: Server = {
  name: "echo",
  // It does not look at the ids.
  ids: ["rising"],
  args: () => [`${HERE}/echo.ts`],
};

export const ONE_COMMIT: Server = {
  name: "one commit a request",
  ids: ["rising", "random"],
  args: (store) => [`${HERE}/one_commit.ts`, store],
};

export const SERVICE: Server = {
  name: "this service",
  ids: ["rising", "random"],
  args: (store) => [`${HERE}/../../main.ts`, "--port", "0", "--kv", store],
};

// Whatever else is set must not configure the servers.
const ENVIRONMENT = Object.fromEntries(
  Object.entries({ ...Deno.env.toObject(), ACCESS_TOKEN: TOKEN })
    .filter(([name]) => ["ACCESS_TOKEN", "DENO_DIR", "HOME"].includes(name)),
);

const children = new Set<Deno.ChildProcess>();

let runs = 0;

/** Starts a server, and waits until it says where it listens. */
export async function start(name: string, command: string, args: string[]) {
  const child = new Deno.Command(command, {
    args,
    cwd: `${HERE}/../..`,
    clearEnv: true,
    env: ENVIRONMENT,
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
  if (!url) throw new Error(`Cannot start ${name}: ${printed}`);
  // Read on, or a server that prints more than a pipe holds would stop.
  lines.pipeTo(new WritableStream()).catch(() => {});
  return { child, url };
}

/** Ends a server at once. */
export async function stop(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended already.
  }
  await child.status;
  children.delete(child);
}

/** Loads a service; every run sends ids of its own. */
export async function load(
  url: string,
  ids: Ids,
  { connections, seconds }: { connections: number; seconds: number },
): Promise<Result> {
  const from = String(++runs * IDS_PER_RUN);
  const wrk = new Deno.Command("wrk", {
    args: ["-t1", `-c${connections}`, `-d${seconds}s`, "-s", `${HERE}/load.lua`]
      .concat(url, "--", ids, from, TOKEN),
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  children.add(wrk);
  const { stdout, stderr } = await wrk.output();
  children.delete(wrk);
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

/** Loads a new process of the server, on a new store in the folder. */
export async function measure(
  server: Server,
  ids: Ids,
  options: { connections: number; seconds: number; dir: string },
): Promise<Result> {
  const store = server.store ?? `${options.dir}/${runs}.db`;
  const args = ["run", "--no-prompt", "-A", ...server.args(store)];
  const { child, url } = await start(server.name, Deno.execPath(), args);
  try {
    const warm = await load(url, ids, {
      ...options,
      seconds: WARM_UP_SECONDS,
    });
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

/** Ends every process that is still there. */
export async function stopAll(): Promise<void> {
  await Promise.all([...children].map(stop));
}
