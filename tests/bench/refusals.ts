/**
 * Measures the CPU time of a refusal because the service is busy, beside that of
 * a create. This process holds as many incomplete requests as may run meanwhile.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { BODY_MS_MAX, CREATES_RUNNING_MAX } from "../../src/limits.ts";
import { request, Wire } from "../support/wire.ts";
import type { Options } from "./main.ts";
import { metric, type Running, services, start } from "./servers.ts";
import { median, medianRatio, printTable } from "./tables.ts";
import { load, type Result, type Size, WARM_UP_SECONDS } from "./wrk.ts";

/** A refusal costs at most this much of a create, of the whole process. */
const RATIO_MAX = 0.5;

/** Requests without a reply, with the one that reads it. */
const RUNNING = "plant_store_http_requests_running";

/** A create whose body does not arrive. */
const INCOMPLETE = request("", { headers: ["content-length: 1"] });

/** A server, and its results by turns. */
interface Subject {
  readonly server: Running;
  readonly creates: Result[];
  readonly refusals: Result[];
}

/** Prints the table, and reports whether a refusal of this service is cheap. */
export async function benchRefusals(options: Options): Promise<boolean> {
  const { against, connections, directory, rounds } = options;
  // Half of the time that the incomplete requests have.
  const seconds = Math.min(options.seconds, BODY_MS_MAX / 2000);
  const subjects: Subject[] = [];
  for (const each of services(against)) {
    const store = `${directory}/${subjects.length}.db`;
    const server = await start(each, store);
    subjects.push({ server, creates: [], refusals: [] });
    const size = { connections, seconds: WARM_UP_SECONDS };
    await load(server, { ids: "rising" }, size);
    await loadBusy(server, size);
  }
  for (let round = 1; round <= rounds; round++) {
    for (const { server, creates, refusals } of subjects) {
      const size = { connections, seconds };
      creates.push(await load(server, { ids: "rising" }, size));
      refusals.push(await loadBusy(server, size));
    }
    console.error(`round ${round} is done`);
  }
  printTable([
    ["server", "µs of a create", "µs of a refusal", "ratio"],
    ...subjects.map((subject) => [
      subject.server.name,
      median(subject.creates.map(ofProcess)).toFixed(1),
      median(subject.refusals.map(ofProcess)).toFixed(1),
      ratioOf(subject).toFixed(2),
    ]),
  ]);
  const own = subjects.at(-1);
  return own !== undefined && ratioOf(own) <= RATIO_MAX;
}

/** Loads a service that refuses creates, since others are running. */
async function loadBusy(server: Running, size: Size): Promise<Result> {
  const untilRunning = async (count: number) => {
    while (await metric(server.url, RUNNING) !== count + 1) await sleep(10);
  };
  await untilRunning(0);
  using incomplete = new DisposableStack();
  for (let i = 0; i < CREATES_RUNNING_MAX; i++) {
    const wire = await Wire.connect(Number(new URL(server.url).port));
    await incomplete.use(wire).send(INCOMPLETE);
  }
  await untilRunning(CREATES_RUNNING_MAX);
  const result = await load(server, { ids: "rising" }, size);
  if (result.replies === 0 || result.errors < 0.99 * result.replies) {
    throw new Error(`refused only ${result.errors} of ${result.replies}`);
  }
  return result;
}

function ofProcess({ cpu }: Result): number {
  return cpu.process;
}

function ratioOf({ creates, refusals }: Subject): number {
  return medianRatio(refusals.map(ofProcess), creates.map(ofProcess));
}
