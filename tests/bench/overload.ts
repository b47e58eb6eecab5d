/**
 * Measures what clients get above the capacity, and how soon the service has
 * recovered afterwards; the echo is the yardstick. The servers have a part of a
 * core (a cgroup), so that the generator of the load has cores to spare.
 */
import { NGINX, Nginx } from "../support/nginx.ts";
import { CpuQuota } from "./cpu_quota.ts";
import type { Options } from "./main.ts";
import { OpenLoop } from "./open_loop.ts";
import { ECHO, type Server, service, services, start } from "./servers.ts";
import { median, printTable, shuffled } from "./tables.ts";
import { load } from "./wrk.ts";

/** Part of a core; with it the echo is about as fast as the service. */
const SERVICE_SHARE = 0.2;
const ECHO_SHARE = 0.05;

/** Rates, relative to the capacity. */
const OVERLOADS = [0.75, 1.5, 2];
const WARM_UP = 0.5;
const AFTERWARDS = 0.25;

const WARM_UP_SECONDS = 3;
const OVERLOAD_SECONDS = 10;
const AFTERWARDS_SECONDS = 10;

/** A run whose load is sent later than this is not valid, and is repeated. */
const LAG_MS_MAX = 200;
const ATTEMPTS_MAX = 3;

/** A server under a rate of creates: one row of the table. */
interface Subject {
  readonly title: string;
  readonly server: Server;
  readonly share: number;
  readonly proxy: "none" | "limited" | "unlimited";
  readonly overload: number;
}

/** The result of one run. */
interface Result {
  /** Creates/s over kept-alive connections, without a proxy. */
  readonly capacity: number;
  /** Creates/s that were answered 200 in time during the overload. */
  readonly useful: number;
  /** Time from the overload until every create was answered in time. */
  readonly recoverySeconds: number;
  readonly lagMs: number;
}

/** Prints the table, and reports whether all runs are valid. */
export async function benchOverload(options: Options): Promise<boolean> {
  const { against, rounds } = options;
  const results = new Map(
    listSubjects(against).map((each): [Subject, Result[]] => [each, []]),
  );
  for (let round = 1; round <= rounds; round++) {
    for (const [subject, own] of shuffled([...results])) {
      for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        const result = await measure(subject, options);
        const name = `${subject.title} at ${subject.overload}`;
        console.error(`${name}: ${JSON.stringify(result)}`);
        if (result.lagMs > LAG_MS_MAX) continue;
        own.push(result);
        break;
      }
    }
    console.error(`round ${round} is done`);
  }
  printTable([
    [
      ...["server", "load", "capacity/s", "useful, of the capacity"],
      ...["s until all in time", "lag in ms", "valid runs"],
    ],
    ...[...results].map(([subject, own]) => toRow(subject, own, rounds)),
  ]);
  return [...results.values()].every(({ length }) => length === rounds);
}

function listSubjects(against: string | undefined): Subject[] {
  const share = SERVICE_SHARE;
  const targets: Omit<Subject, "overload">[] = [
    ...services(against).map((server) => {
      return { title: server.name, server, share, proxy: "none" } as const;
    }),
    { title: "echo", server: ECHO, share: ECHO_SHARE, proxy: "none" },
  ];
  if (NGINX !== "") {
    const server = service();
    targets.push(
      { title: "behind nginx", server, share, proxy: "limited" },
      { title: "without its limit", server, share, proxy: "unlimited" },
    );
  }
  return targets.flatMap((target) =>
    OVERLOADS.map((overload) => ({ ...target, overload }))
  );
}

async function measure(
  { server, share, proxy, overload }: Subject,
  { connections, directory }: Options,
): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const quota = stack.use(new CpuQuota(share));
  const store = await Deno.makeTempFile({ dir: directory });
  const running = await start(server, store);
  stack.use(running.child);
  const rising = { ids: "rising" } as const;
  // Compile the code before the quota applies.
  await load(running, rising, { connections, seconds: 3 });
  quota.add(running.child.process.pid);
  const { rate } = await load(running, rising, { connections, seconds: 5 });
  let { url } = running;
  if (proxy !== "none") {
    const edit = (text: string) =>
      withoutTls(proxy === "limited" ? text : withoutLimit(text));
    const port = Number(new URL(url).port);
    const nginx = stack.use(await Nginx.start([port], edit));
    url = nginx.origin.replace("https:", "http:");
  }
  const clients = new OpenLoop(url);
  const [, during = [], afterwards = []] = await clients.run([
    { perSecond: Math.round(WARM_UP * rate), seconds: WARM_UP_SECONDS },
    { perSecond: Math.round(overload * rate), seconds: OVERLOAD_SECONDS },
    { perSecond: Math.round(AFTERWARDS * rate), seconds: AFTERWARDS_SECONDS },
  ]);
  return {
    capacity: rate,
    useful: during.reduce((sum, { useful }) => sum + useful, 0) /
      OVERLOAD_SECONDS,
    recoverySeconds: afterwards.findLastIndex(({ late }) => late > 0) + 1,
    lagMs: clients.lagMs,
  };
}

/** Changes a configuration of nginx: the load sends cleartext. */
function withoutTls(text: string): string {
  return text.replace(" ssl;", ";").replace(/^ +ssl_.*\n/gm, "");
}

function withoutLimit(text: string): string {
  return text.replaceAll(/ max_conns=\d+/g, "");
}

function toRow(
  { title, overload }: Subject,
  results: readonly Result[],
  rounds: number,
): string[] {
  const useful = results.map(({ useful, capacity }) => useful / capacity);
  const recovery = results.map(({ recoverySeconds }) => recoverySeconds);
  return [
    title,
    `${overload}`,
    median(results.map(({ capacity }) => capacity)).toFixed(0),
    range(useful, 2),
    range(recovery, 0),
    Math.max(...results.map(({ lagMs }) => lagMs)).toFixed(0),
    `${results.length} of ${rounds}`,
  ];
}

/** Returns the least and the greatest of some numbers. */
function range(numbers: readonly number[], digits: number): string {
  const ends = [Math.min(...numbers), Math.max(...numbers)];
  return ends.map((number) => number.toFixed(digits)).join(" to ");
}
