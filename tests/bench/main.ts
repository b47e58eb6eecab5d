/** The benches: `deno task bench NAME`. */
import { parseArgs } from "node:util";
import { type Load, type Result, Service } from "./service.ts";

const USAGE = `usage: deno task bench NAME [--against DIR]

  creates     creates with rising and with random ids
  repeats     repeated creates and new ones
  refusals    refusals of a busy service and creates

  --against DIR   compare with the version that is checked out in DIR

In parentheses is the ratio to the same load of DIR, or else to the first row.`;

const BENCHES: Readonly<Record<string, readonly Load[]>> = {
  creates: [
    { title: "rising ids", ids: "rising" },
    { title: "random ids", ids: "random" },
  ],
  repeats: [
    { title: "new", ids: "rising" },
    { title: "1 % repeated", ids: "rising", repeats: 1 },
    { title: "10 % repeated", ids: "rising", repeats: 10 },
    { title: "all repeated", ids: "rising", repeats: 100 },
  ],
  refusals: [
    { title: "creates", ids: "rising" },
    { title: "refusals", ids: "rising", isBusy: true },
  ],
};

/** Odd, so that one of them is the median. */
const ROUNDS = 11;

/** A row of the table. */
interface Subject {
  readonly checkout: string;
  readonly load: Load;
  readonly service: Service;
  /** One of each round. */
  readonly results: Result[];
}

/** Loads all services by turns. */
async function measure(
  checkouts: readonly string[],
  loads: readonly Load[],
): Promise<Subject[]> {
  await using cleanUp = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir({ prefix: "plants-bench-" });
  cleanUp.defer(() => Deno.remove(directory, { recursive: true }));
  const subjects: Subject[] = [];
  for (const checkout of checkouts) {
    for (const load of loads) {
      const store = `${directory}/${subjects.length}.db`;
      const service = cleanUp.use(await Service.start(checkout, store));
      // The first load is not measured: the runtime compiles meanwhile.
      await service.measure(load);
      subjects.push({ checkout, load, service, results: [] });
    }
  }
  for (let round = 1; round <= ROUNDS; round++) {
    // One load can slow down the next one, which is the same for both checkouts.
    for (const { service, load, results } of subjects) {
      results.push(await service.measure(load));
    }
    console.error(`round ${round} of ${ROUNDS} is done`);
  }
  return subjects;
}

/** Returns medians, with the medians of the ratios to another subject. */
function summarize(results: readonly Result[], base: readonly Result[]) {
  const cells = Object.keys(results[0] ?? {}).map((column) => {
    const values = results.map((result) => result[column] ?? NaN);
    const ratios = values.map((value, round) =>
      value / (base[round]?.[column] ?? NaN)
    );
    const digits = { maximumSignificantDigits: 3 };
    const value = median(values).toLocaleString("en", digits);
    return [column, `${value} (${median(ratios).toFixed(2)})`];
  });
  return Object.fromEntries(cells);
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[(ROUNDS - 1) / 2] ?? NaN;
}

async function main(args: string[]): Promise<number> {
  const { values: { against, help }, positionals: [name = ""] } = parseArgs({
    args,
    allowPositionals: true,
    options: { against: { type: "string" }, help: { type: "boolean" } },
  });
  const loads = BENCHES[name];
  if (help || loads === undefined) {
    console.log(USAGE);
    return help ? 0 : 2;
  }
  const checkouts = against === undefined ? ["."] : [against, "."];
  const subjects = await measure(checkouts, loads);
  console.table(subjects.map(({ checkout, load, results }) => {
    const base = against === undefined
      ? subjects[0]
      : subjects.find((other) => other.load === load);
    const { title } = load;
    return { checkout, title, ...summarize(results, base?.results ?? []) };
  }));
  return 0;
}

// Ctrl-C ends the services and wrk: this process fails, and removes the stores.
Deno.addSignalListener("SIGINT", () => {});
if (import.meta.main) Deno.exit(await main(Deno.args));
