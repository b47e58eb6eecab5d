/**
 * Measures what a continuous copy by Litestream costs. Each measurement starts
 * on a new store, since Litestream works on after a load.
 */
import { LITESTREAM, Litestream } from "../support/litestream.ts";
import type { Options } from "./main.ts";
import { cpuTimes, service, start } from "./servers.ts";
import { median, medianRatio, printTable, shuffled } from "./tables.ts";
import { type Load, load, WARM_UP_SECONDS } from "./wrk.ts";

/** The result of one measurement. */
interface Result {
  readonly rate: number;
  readonly p99Ms: number;
  readonly errors: number;
  /** CPU time per create, in microseconds. */
  readonly serviceUs: number;
  readonly litestreamUs: number;
  /** Size of the log at the end, which is its maximum. */
  readonly logBytes: number;
}

/** What is measured, and the results. */
interface Setup {
  readonly ids: Load["ids"];
  readonly isCopied: boolean;
  readonly results: Result[];
}

/** Prints the table, and reports whether every create was answered 200. */
export async function benchLitestream(options: Options): Promise<boolean> {
  if (LITESTREAM === "") throw new Error("LITESTREAM names no litestream");
  const setups = (["rising", "random"] as const).flatMap((ids): Setup[] => [
    { ids, isCopied: false, results: [] },
    { ids, isCopied: true, results: [] },
  ]);
  for (let round = 1; round <= options.rounds; round++) {
    for (const { ids, isCopied, results } of shuffled(setups)) {
      const directory = await Deno.makeTempDir({ dir: options.directory });
      results.push(await measure(ids, isCopied, { ...options, directory }));
      await Deno.remove(directory, { recursive: true });
    }
    console.error(`round ${round} is done`);
  }
  printTable([
    [
      ...["ids", "Litestream", "creates/s", "of without", "p99 ms"],
      ...["µs of service", "µs of Litestream", "log in MB", "errors"],
    ],
    ...setups.map(({ ids, isCopied, results }) => {
      const without = setups.find((it) => it.ids === ids && !it.isCopied);
      const rates = (of: readonly Result[] = []) => of.map(({ rate }) => rate);
      const of = (select: (result: Result) => number, digits = 0) =>
        median(results.map(select)).toFixed(digits);
      return [
        ...[ids, isCopied ? "yes" : "no", of(({ rate }) => rate)],
        medianRatio(rates(results), rates(without?.results)).toFixed(2),
        ...[of(({ p99Ms }) => p99Ms, 1), of(({ serviceUs }) => serviceUs, 1)],
        isCopied ? of(({ litestreamUs }) => litestreamUs, 1) : "",
        of(({ logBytes }) => logBytes / 1e6),
        String(results.reduce((sum, { errors }) => sum + errors, 0)),
      ];
    }),
  ]);
  return setups.every(({ results }) =>
    results.every(({ errors }) => errors === 0)
  );
}

/** Starts everything on a new store, loads it, and stops it. */
async function measure(
  ids: Load["ids"],
  isCopied: boolean,
  { directory, ...size }: Options,
): Promise<Result> {
  const store = `${directory}/plants.db`;
  const server = await start(service(), store);
  await using _child = server.child;
  await using copy = new Litestream(directory, store);
  if (isCopied) await copy.start();
  await load(server, { ids }, { ...size, seconds: WARM_UP_SECONDS });
  const litestreamUs = () => cpuTimes(copy.pid ?? NaN).process;
  const beforeUs = litestreamUs();
  const measured = await load(server, { ids }, size);
  const { replies, rate, p99Ms, errors, cpu } = measured;
  return {
    ...{ rate, p99Ms, errors, serviceUs: cpu.process },
    litestreamUs: (litestreamUs() - beforeUs) / replies,
    logBytes: (await Deno.stat(`${store}-wal`)).size,
  };
}
