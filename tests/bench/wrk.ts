/** Puts load on a server with wrk. */
import { TOKEN } from "../support/program.ts";
import { type CpuTimes, cpuTimes, type Running } from "./servers.ts";

/** How ids are chosen. */
export interface Load {
  readonly ids: "rising" | "random";
  /** Percentage of creates that repeat an earlier one. */
  readonly repeats?: number;
  /** Which ones: the last few thousand, or those that were preloaded. */
  readonly of?: "recent" | "old";
  /** Number of preloaded plants. */
  readonly preloaded?: number;
}

/** The size of a load. */
export interface Size {
  readonly connections: number;
  readonly seconds: number;
}

/** The result of a load. */
export interface Result {
  /** Number of replies. */
  readonly replies: number;
  /** Replies per second. */
  readonly rate: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** CPU time per reply, in microseconds. */
  readonly cpu: CpuTimes;
}

/** What load.lua prints. */
type Printed = Record<"rate" | "p50" | "p99" | "refused" | "broken", number>;

/** Time to load a server before it is measured. */
export const WARM_UP_SECONDS = 2;

/** More ids than one run sends. The preloaded ones are below the first. */
const IDS_PER_RUN = 1e9;

let runs = 10;

/** Loads a server for some seconds; every run has ids of its own. */
export async function load(
  { url, child }: Running,
  { ids, repeats = 0, of = "recent", preloaded = 0 }: Load,
  { connections, seconds }: Size,
): Promise<Result> {
  const from = ++runs * IDS_PER_RUN;
  const before = cpuTimes(child.process.pid);
  const { stdout, stderr } = await new Deno.Command("wrk", {
    args: [
      ...["-t1", `-c${connections}`, `-d${seconds}s`],
      ...["-s", `${import.meta.dirname}/load.lua`, url, "--"],
      ...[ids, from, TOKEN, repeats, of, preloaded].map(String),
    ],
  }).output();
  const after = cpuTimes(child.process.pid);
  const text = new TextDecoder().decode(stdout);
  const [, json] = /^result (.+)$/m.exec(text) ?? [];
  if (json === undefined) {
    throw new Error(`wrk failed: ${text}${new TextDecoder().decode(stderr)}`);
  }
  const { rate, p50, p99, refused, broken }: Printed = JSON.parse(json);
  const replies = rate * seconds;
  return {
    replies,
    rate,
    p50Ms: p50 / 1000,
    p99Ms: p99 / 1000,
    errors: refused + broken,
    cpu: {
      main: (after.main - before.main) / replies,
      process: (after.process - before.process) / replies,
    },
  };
}
