import { type Flags, readConfig, type Setting, SETTINGS } from "./config.ts";
import { serve } from "./serve.ts";
import { StartError } from "./start_error.ts";
import { VERSION } from "./version.ts";

/** What was written behind the program's name. */
interface CommandLine {
  readonly words: readonly string[];
  readonly flags: Flags;
}

/**
 * Runs the program.
 * @param args what stands behind its name
 * @returns the exit status: 0, 1 for a failure, 2 where what was written or
 * configured must change
 */
export async function main(args: readonly string[]): Promise<number> {
  try {
    if (args.includes("--help") || args.includes("-h")) {
      console.log(help());
      return 0;
    }
    if (args.includes("--version")) {
      console.log(`plant-store ${VERSION}`);
      return 0;
    }
    const { words: [command = "serve", ...operands], flags } = parse(args);
    if (command !== "serve") {
      throw new StartError(`there is no command ${command}: see --help`);
    }
    if (operands.length > 0) {
      throw new StartError(`${operands[0]} is not expected here: see --help`);
    }
    return await serve(readConfig(flags, Deno.env));
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    console.error(`plant-store: ${error.message}`);
    return error.exitStatus;
  }
}

const FLAGS: ReadonlySet<string> = new Set(
  Object.values(SETTINGS).flatMap(({ flag }: Setting) => flag ?? []),
);

/** Splits arguments into words and flags: `--flag value` or `--flag=value`. */
function parse(args: readonly string[]): CommandLine {
  const words: string[] = [];
  const flags = new Map<string, string>();
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (!arg.startsWith("-") || arg === "-") {
      words.push(arg);
      continue;
    }
    const equals = arg.indexOf("=");
    const flag = equals === -1 ? arg : arg.slice(0, equals);
    if (!FLAGS.has(flag)) {
      throw new StartError(`there is no flag ${flag}: see --help`);
    }
    const value = equals === -1 ? args[++i] : arg.slice(equals + 1);
    if (value === undefined) {
      throw new StartError(`${flag} needs a value: see --help`);
    }
    flags.set(flag, value);
  }
  return { words, flags };
}

function help(): string {
  const rows = Object.values(SETTINGS).map((setting: Setting) => {
    const { flag = "", variable, value, fallback, help } = setting;
    const left = `  ${`${flag} ${value}`.trim()}`.padEnd(28);
    const unless = fallback === undefined ? "" : ` (${fallback})`;
    return `${left} ${variable.padEnd(18)} ${help}${unless}`;
  });
  return `plant-store ${VERSION}: creates plants over HTTP, POST /plants

Usage: plant-store [serve] [flags]

Flags, the environment variables beside them, and defaults; a flag wins:
${rows.join("\n")}
  --help
  --version

Examples:
  plant-store
  plant-store --port 9000 --kv /var/lib/plant-store/plants.db
  ACCESS_TOKEN=secret plant-store --host 0.0.0.0
  DENO_KV_ACCESS_TOKEN=secret plant-store --kv https://kv.example`;
}
