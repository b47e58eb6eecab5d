/**
 * Measures how many creates are answered in time while they arrive faster than
 * the service can store them, behind nginx with the limit of connections in
 * src/deploy/ and without it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { BackgroundProcess } from "../support/background.ts";
import { NGINX, Nginx } from "../support/nginx.ts";
import { shuffled } from "../support/transfer.ts";
import { request } from "../support/wire.ts";
import type { Options } from "./main.ts";
import { service, start } from "./servers.ts";
import { median, printTable } from "./tables.ts";
import { load, WARM_UP_SECONDS } from "./wrk.ts";

/** The load, relative to the capacity. */
const OVERLOAD = 1.5;

const OVERLOAD_SECONDS = 10;

/** Time after which a client gives up and closes its connection. */
const DEADLINE_MS = 1_000;

/** A load that is sent later than this is not the one that is meant. */
const LAG_MS_MAX = 200;

/**
 * Lets a process run for about a tenth of the time, so that the cores are not
 * busy with the load: nginx and the clients need more of them than the service.
 */
const SLOW_DOWN =
  'while kill -CONT "$0"; do sleep .005; kill -STOP "$0"; sleep .045; done';

/** The result of one measurement. */
interface Result {
  /** Creates/s over kept-alive connections, without nginx. */
  readonly capacity: number;
  /** Creates/s that were answered 200 in time. */
  readonly inTime: number;
  /** Maximum delay in sending a create. */
  readonly lagMs: number;
}

/** Prints the table, and reports whether the load was sent as planned. */
export async function benchOverload(options: Options): Promise<boolean> {
  if (NGINX === "") throw new Error("NGINX names no nginx");
  const subjects = [
    ["with its limit", /$^/g, new Array<Result>()],
    ["without its limit", / max_conns=\d+/g, new Array<Result>()],
  ] as const;
  for (let round = 1; round <= options.rounds; round++) {
    for (const [, removed, results] of shuffled(subjects)) {
      results.push(await measure(removed, options));
    }
    console.error(`round ${round} is done`);
  }
  printTable([
    ["nginx", "capacity/s", "in time, of the capacity", "lag ms at most"],
    ...subjects.map(([title, , results]) => [
      title,
      median(results.map(({ capacity }) => capacity)).toFixed(0),
      median(results.map(({ inTime, capacity }) => inTime / capacity))
        .toFixed(2),
      Math.max(...results.map(({ lagMs }) => lagMs)).toFixed(0),
    ]),
  ]);
  const results = subjects.flatMap(([, , results]) => results);
  return results.every(({ lagMs }) => lagMs <= LAG_MS_MAX);
}

/**
 * Starts everything on a new store, loads it, and stops it.
 * @param removed from the configuration of nginx
 */
async function measure(
  removed: RegExp,
  { connections, directory, seconds }: Options,
): Promise<Result> {
  const store = await Deno.makeTempDir({ dir: directory });
  const server = await start(service(), `${store}/plants.db`);
  await using child = server.child;
  const ids = { ids: "rising" } as const;
  await load(server, ids, { connections, seconds: WARM_UP_SECONDS });
  await using _slow = new BackgroundProcess("bash", {
    args: ["-c", SLOW_DOWN, `${child.process.pid}`],
  });
  const { rate } = await load(server, ids, { connections, seconds });
  await using nginx = await Nginx.start(
    [Number(new URL(server.url).port)],
    // The clients send cleartext.
    (text) =>
      text.replace(" ssl;", ";").replace(/^ +ssl_.*\n/gm, "")
        .replaceAll(removed, ""),
  );
  const port = Number(new URL(nginx.origin).port);
  return { capacity: rate, ...await overload(port, OVERLOAD * rate) };
}

/**
 * Sends creates at a rate, whether or not earlier ones were answered, as many
 * independent clients do. Each uses an idle connection, or opens one.
 */
async function overload(
  port: number,
  perSecond: number,
): Promise<Omit<Result, "capacity">> {
  const idle: Deno.TcpConn[] = [];
  let stored = 0;

  async function create(id: number): Promise<void> {
    const deadline = new AbortController();
    const { signal } = deadline;
    const timer = setTimeout(() => deadline.abort(), DEADLINE_MS);
    let connection = idle.pop();
    signal.addEventListener("abort", () => connection?.close());
    try {
      connection ??= await Deno.connect({ port, signal });
      const text = `{"id":${id},"name":"Monstera deliciosa","tag":"climber"}`;
      await connection.write(request(text));
      // A reply is far smaller than a segment of the loopback interface.
      const reply = new Uint8Array(4096);
      const length = await connection.read(reply);
      if (signal.aborted) return;
      if (length === null) return connection.close();
      // HTTP/1.1 200
      if (reply[9] === 0x32) stored++;
      idle.push(connection);
    } catch {
      // The deadline has closed the connection, or nginx did.
      if (!signal.aborted) connection?.close();
    } finally {
      clearTimeout(timer);
    }
  }

  const creates: Promise<void>[] = [];
  const startMs = performance.now();
  let lagMs = 0;
  for (let sent = 0; sent < perSecond * OVERLOAD_SECONDS;) {
    const elapsedMs = performance.now() - startMs;
    lagMs = Math.max(lagMs, elapsedMs - sent / perSecond * 1000);
    for (; sent < elapsedMs / 1000 * perSecond; sent++) {
      creates.push(create(sent));
    }
    await sleep(5);
  }
  await Promise.all(creates);
  for (const connection of idle) connection.close();
  return { inTime: stored / OVERLOAD_SECONDS, lagMs };
}
