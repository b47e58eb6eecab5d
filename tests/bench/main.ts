/** The benches: `deno task bench NAME`. */
import { parseArgs } from "node:util";
import { type Load, type Result, Service } from "./service.ts";
import { measureTransfer, type Transfer, writePlants } from "./transfers.ts";

const USAGE = `usage: deno task bench NAME... [--against DIR]

  creates     creates with rising and with random ids
  repeats     repeated creates and new ones
  refusals    creates, refusals of a busy service, bodies that are not JSON
  transfers   import and export of a million plants

  --against DIR   compare with the version that is checked out in DIR

In parentheses is the ratio to the same row of DIR, or else to the first row.`;

const BENCHES: Readonly<Record<string, readonly (Load | Transfer)[]>> = {
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
    { title: "refusals", ids: "rising", refusals: "busy" },
    { title: "not JSON", ids: "rising", refusals: "not JSON" },
  ],
  transfers: [
    { title: "import", command: "import", isNew: true },
    { title: "the same import again", command: "import" },
    { title: "export", command: "export" },
  ],
};

/** Odd, so that one of them is the median. */
const ROUNDS = 11;

/** A row of the table. */
interface Subject {
  readonly checkout: string;
  readonly title: string;
  readonly measure: () => Promise<Result>;
  /** One of each round. */
  readonly results: Result[];
}

/** Measures all rows of a bench by turns. */
async function run(
  rows: readonly (Load | Transfer)[],
  checkouts: readonly string[],
): Promise<Subject[]> {
  await using cleanUp = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir({ prefix: "plants-bench-" });
  cleanUp.defer(() => Deno.remove(directory, { recursive: true }));
  const plants = `${directory}/plants`;
  if (rows.some((row) => "command" in row)) await writePlants(plants);
  const subjects: Subject[] = [];
  for (const [i, checkout] of checkouts.entries()) {
    for (const row of rows) {
      const { title } = row;
      let measure: Subject["measure"];
      if ("command" in row) {
        const files = { plants, store: `${directory}/${i}.db` };
        measure = () => measureTransfer(checkout, row, files);
      } else {
        const store = `${directory}/${subjects.length}.db`;
        const service = cleanUp.use(await Service.start(checkout, store));
        measure = () => service.measure(row);
        // The first load is not measured: the runtime compiles meanwhile.
        await measure();
      }
      subjects.push({ checkout, title, measure, results: [] });
    }
  }
  for (let round = 1; round <= ROUNDS; round++) {
    // One row can slow down the next one, which is the same for both checkouts.
    for (const { measure, results } of subjects) results.push(await measure());
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
  const { values: { against, help }, positionals: names } = parseArgs({
    args,
    allowPositionals: true,
    options: { against: { type: "string" }, help: { type: "boolean" } },
  });
  const benches = names.map((name) => BENCHES[name]);
  if (help || benches.length === 0 || benches.includes(undefined)) {
    console.log(USAGE);
    return help ? 0 : 2;
  }
  const checkouts = against === undefined ? ["."] : [against, "."];
  for (const rows of benches) {
    const subjects = await run(rows ?? [], checkouts);
    console.table(subjects.map(({ checkout, title, results }) => {
      const base = against === undefined
        ? subjects[0]
        : subjects.find((other) => other.title === title);
      return { checkout, title, ...summarize(results, base?.results ?? []) };
    }));
  }
  return 0;
}

// Ctrl-C ends the services and wrk: this process fails, and removes the stores.
Deno.addSignalListener("SIGINT", () => {});
if (import.meta.main) Deno.exit(await main(Deno.args));
