import { backUp } from "./backup.ts";
import { type Address, type Setting, SETTINGS, Settings } from "./config.ts";
import { exportPlants } from "./export.ts";
import { healthcheck } from "./healthcheck.ts";
import { importPlants } from "./import.ts";
import { originOf } from "./listener.ts";
import { descriptionText } from "./openapi.ts";
import { printError, writeOut } from "./output.ts";
import { serve } from "./serve.ts";
import { StartError } from "./start_error.ts";
import { VERSION } from "./version.ts";

/** What the program can be told to do. */
interface Command {
  /** What stands for its operand in the help, if it takes one. */
  readonly operand?: string;
  readonly help: string;
  /** @returns the exit status */
  readonly run: (
    settings: Settings,
    operand: string,
  ) => number | Promise<number>;
}

/** Every command, in the order of the help. */
const COMMANDS: ReadonlyMap<string, Command> = new Map(
  [
    ["serve", {
      help: "run the service; so does naming no command",
      run: (settings) => serve(settings.config()),
    }],
    ["export", {
      help: "write every plant to stdout, one JSON object a line",
      run: (settings) => exportPlants(settings.store()),
    }],
    ["import", {
      operand: "FILE",
      help: "create the plants of such lines; - reads stdin",
      run: (settings, file) => importPlants(settings.store(), file),
    }],
    ["backup", {
      operand: "FILE",
      help: "copy the store to a new file, also while the service runs",
      run: (settings, file) => backUp(settings.store(), file),
    }],
    ["healthcheck", {
      help: "ask the running service whether it is ready",
      run: (settings) => healthcheck(settings.address()),
    }],
    ["openapi", {
      help: "write the OpenAPI description to stdout",
      run: (settings) => writeDescription(settings.address()),
    }],
  ] satisfies [string, Command][],
);

/** What a shell reports of a program that a closed pipe ended: SIGPIPE. */
const EXIT_PIPE_CLOSED = 128 + 13;

/** What was written behind the program's name. */
interface CommandLine {
  readonly words: readonly string[];
  /** Values of flags, by flag. */
  readonly flags: ReadonlyMap<string, string>;
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
      await writeOut(`${help()}\n`);
      return 0;
    }
    if (args.includes("--version")) {
      await writeOut(`plant-store ${VERSION}\n`);
      return 0;
    }
    const { words, flags } = parse(args);
    const { run, operand } = readCommand(words);
    return await run(new Settings(flags, Deno.env), operand);
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_PIPE_CLOSED;
    if (!(error instanceof StartError)) throw error;
    // What it quotes can have line ends.
    printError(
      `plant-store: ${error.message.replaceAll(/\s*[\r\n]\s*/g, " ")}`,
    );
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

/** The command that the words name, and its operand; empty where it has none. */
function readCommand(
  [name = "serve", ...operands]: readonly string[],
): { run: Command["run"]; operand: string } {
  const command = COMMANDS.get(name);
  if (command === undefined) {
    throw new StartError(`there is no command ${name}: see --help`);
  }
  const { operand, run } = command;
  if (operand !== undefined && (operands[0] ?? "") === "") {
    throw new StartError(`${name} needs a ${operand}: see --help`);
  }
  const unexpected = operands[operand === undefined ? 0 : 1];
  if (unexpected !== undefined) {
    throw new StartError(`${unexpected} is not expected here: see --help`);
  }
  return { run, operand: operands[0] ?? "" };
}

/** The description at the public address, or else at the configured one. */
async function writeDescription(
  { host, port, baseUrl, isTls }: Address,
): Promise<number> {
  await writeOut(descriptionText(baseUrl ?? originOf(host, port, isTls)));
  return 0;
}

function help(): string {
  const commands = COMMANDS.entries().map(([name, { operand = "", help }]) =>
    `  ${`${name} ${operand}`.padEnd(15)} ${help}`
  );
  const settings = Object.values(SETTINGS).map((setting: Setting) => {
    const { flag = "", variable, value, fallback, help } = setting;
    const left = `  ${`${flag} ${value}`.trim()}`.padEnd(28);
    const unless = fallback === undefined ? "" : ` (${fallback})`;
    return `${left} ${variable.padEnd(18)} ${help}${unless}`;
  });
  return `plant-store ${VERSION}: creates plants over HTTP, POST /plants

Usage: plant-store [command] [flags]

${commands.toArray().join("\n")}

Flags, the environment variables beside them, and defaults; a flag wins:
${settings.join("\n")}
  --help
  --version

Examples:
  plant-store
  plant-store --port 9000 --kv /var/lib/plant-store/plants.db
  ACCESS_TOKEN=secret plant-store --host 0.0.0.0
  DENO_KV_ACCESS_TOKEN=secret plant-store --kv https://kv.example
  plant-store export --kv plants.db | plant-store import - --kv other.db`;
}
