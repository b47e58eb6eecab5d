/**
 * Measures the CPU time of a refusal because the service is busy, beside that of
 * a create. Another process, this one, holds the lock of the store meanwhile.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { QUEUE_MS_MAX } from "../../src/limits.ts";
import { PLANT, send } from "../support/load.ts";
import { StoreLock } from "../support/temporary.ts";
import type { Options } from "./main.ts";
import { metric, type Running, services, start } from "./servers.ts";
import { median, medianRatio, printTable } from "./tables.ts";
import { load, type Result, type Size, WARM_UP_SECONDS } from "./wrk.ts";

/** A refusal costs at most this much of a create, of the whole process. */
const RATIO_MAX = 0.45;

/** Creates without an outcome. */
const WAITING = "plant_store_creates_waiting";

/** The id of the last create outside a load, whose ids are positive. */
let lastId = 0n;

/** A server, and its results by turns. */
interface Subject {
  readonly server: Running;
  readonly store: string;
  readonly creates: Result[];
  readonly refusals: Result[];
}

/** Prints the table, and reports whether a refusal of this service is cheap. */
export async function benchRefusals(options: Options): Promise<boolean> {
  const { against, connections, directory, rounds } = options;
  // Shorter than the deadline of the creates that wait for the lock.
  const seconds = Math.min(options.seconds, 3);
  const subjects: Subject[] = [];
  for (const each of services(against)) {
    const store = `${directory}/${subjects.length}.db`;
    const server = await start(each, store);
    subjects.push({ server, store, creates: [], refusals: [] });
    const size = { connections, seconds: WARM_UP_SECONDS };
    await load(server, { ids: "rising" }, size);
    await loadBusy({ server, store }, size);
  }
  for (let round = 1; round <= rounds; round++) {
    for (const subject of subjects) {
      const size = { connections, seconds };
      const { server, creates, refusals } = subject;
      creates.push(await load(server, { ids: "rising" }, size));
      refusals.push(await loadBusy(subject, size));
    }
    console.error(`round ${round} is done`);
  }
  printTable([
    ["server", "µs of a create", "µs of a refusal", "ratio"],
    ...subjects.map(({ server, creates, refusals }) => [
      server.name,
      median(creates.map(ofProcess)).toFixed(1),
      median(refusals.map(ofProcess)).toFixed(1),
      ratioOf({ creates, refusals }).toFixed(2),
    ]),
  ]);
  const [own] = subjects;
  return own !== undefined && ratioOf(own) <= RATIO_MAX;
}

/** Loads a service that refuses creates, since others wait for a lock. */
async function loadBusy(
  { server, store }: Pick<Subject, "server" | "store">,
  size: Size,
): Promise<Result> {
  const waiting: Promise<unknown>[] = [];
  try {
    const hasWaiting = async (count: number) => {
      while (await metric(server.url, WAITING) !== count) await sleep(10);
    };
    await hasWaiting(0);
    using _lock = new StoreLock(store);
    // One waits in a commit, one in the queue.
    for (const count of [1, 2]) {
      const newPlant = { id: --lastId, plant: PLANT };
      waiting.push(send({ origin: server.url }, newPlant));
      await hasWaiting(count);
    }
    await sleep(2 * QUEUE_MS_MAX);
    const result = await load(server, { ids: "rising" }, size);
    if (result.replies === 0 || result.errors < 0.99 * result.replies) {
      throw new Error(
        `refused ${result.errors} of ${result.replies} creates only`,
      );
    }
    return result;
  } finally {
    await Promise.all(waiting);
  }
}

function ofProcess({ cpu }: Result): number {
  return cpu.process;
}

function ratioOf(
  { creates, refusals }: Pick<Subject, "creates" | "refusals">,
): number {
  return medianRatio(refusals.map(ofProcess), creates.map(ofProcess));
}
