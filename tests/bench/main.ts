/** The benches: `deno task bench [NAME] [options]`. */
import { parseArgs } from "node:util";
import { byCommand } from "../support/needs.ts";
import { benchCreates } from "./creates.ts";
import { benchOverload } from "./overload.ts";
import { benchRefusals } from "./refusals.ts";
import { benchRepeats } from "./repeats.ts";
import { stopAll } from "./servers.ts";

const USAGE = `usage: deno task bench [NAME] [options]

  creates      creates with rising and with random ids
  repeats      repeated creates against new ones
  refusals     the CPU time of a refusal while the service is busy
  overload     creates above the capacity, behind the nginx in NGINX, with and
               without its limit of connections

  --rounds N         rounds; the tables show medians (10)
  --seconds N        length of one measurement (2)
  --connections N    connections (256)
  --plants N         plants in the store beforehand (creates, repeats)
  --against DIR      compare with the service of another checkout (creates,
                     repeats, refusals)

All need wrk. PLANT_STORE names a compiled binary to measure instead of the
program in this checkout. TMPDIR names the directory of the stores.`;

/** The options of a bench. */
export interface Options {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /** 0 if none are given. */
  readonly plants: number;
  readonly against: string | undefined;
  /** A temporary directory for the stores. */
  readonly directory: string;
}

const BENCHES: Readonly<
  Record<string, (options: Options) => Promise<boolean>>
> = {
  creates: benchCreates,
  repeats: benchRepeats,
  refusals: benchRefusals,
  overload: benchOverload,
};

function readNumber(flag: string, text: string, min: number): number {
  if (/^\d{1,9}$/.test(text) && Number(text) >= min) return Number(text);
  throw new TypeError(`${flag}: expected a whole number, got ${text}`);
}

async function main(args: string[]): Promise<number> {
  let directory: string | undefined;
  async function cleanUp(): Promise<void> {
    await stopAll();
    if (directory !== undefined) {
      await Deno.remove(directory, { recursive: true });
    }
  }
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => cleanUp().then(() => Deno.exit(1)));
  }
  try {
    const { values, positionals: [name = "creates"] } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        rounds: { type: "string", default: "10" },
        seconds: { type: "string", default: "2" },
        connections: { type: "string", default: "256" },
        plants: { type: "string", default: "0" },
        against: { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
    const bench = BENCHES[name];
    if (values.help || bench === undefined) {
      console.log(USAGE);
      return values.help ? 0 : 2;
    }
    if (!byCommand("command -v wrk")()) {
      console.error("wrk is not installed: apt-get install wrk");
      return 1;
    }
    directory = await Deno.makeTempDir({ prefix: "plants-bench-" });
    const isGood = await bench({
      rounds: readNumber("--rounds", values.rounds, 1),
      seconds: readNumber("--seconds", values.seconds, 1),
      connections: readNumber("--connections", values.connections, 1),
      plants: readNumber("--plants", values.plants, 0),
      against: values.against,
      directory,
    });
    return isGood ? 0 : 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return error instanceof TypeError ? 2 : 1;
  } finally {
    await cleanUp();
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
