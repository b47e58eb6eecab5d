import { check } from "./commands/check.ts";
import { exportPlants } from "./commands/export.ts";
import { checkHealth } from "./commands/healthcheck.ts";
import { importPlants } from "./commands/import.ts";
import { removePlants } from "./commands/remove.ts";
import { serve } from "./commands/serve.ts";
import { writeStdout } from "./console/stdout.ts";
import { ALL_SETTINGS, Settings } from "./config/settings.ts";
import { EXIT_FAILURE, OperatorError } from "./operator_error.ts";
import { toLine } from "./messages.ts";
import { publicUrlOf } from "./http/origin.ts";
import { descriptionText } from "./reference/openapi.ts";
import { Log, type LogFormat, writeStderr } from "./telemetry/log.ts";
import { VERSION } from "./version.ts";

/** The operands of a command as in its help, with their minimum and maximum. */
const OPERANDS = {
  "": [0, 0],
  "FILE": [1, 1],
  "ID...": [1, Infinity],
  "[ID...]": [0, Infinity],
} as const;

/** A command of the program. */
interface Command {
  readonly operands?: keyof typeof OPERANDS;
  readonly help: string;
  /** Returns the exit status. */
  readonly run: (
    settings: Settings,
    operands: readonly string[],
  ) => number | Promise<number>;
}

/** Every command, in the order of the help. */
const COMMANDS: ReadonlyMap<string, Command> = new Map(
  [
    ["serve", {
      help: "run the service; the default",
      run: (settings) => serve(settings.config()),
    }],
    ["export", {
      operands: "[ID...]",
      help: "write these plants, or all, to stdout, one JSON object per line",
      run: (settings, ids) => exportPlants(settings.store(), ids),
    }],
    ["import", {
      operands: "FILE",
      help: "create plants from such lines; - reads stdin",
      run: (settings, [file = ""]) => importPlants(settings.store(), file),
    }],
    ["remove", {
      operands: "ID...",
      help: "remove these plants, also while the service runs",
      run: (settings, ids) => removePlants(settings.store(), ids),
    }],
    ["check", {
      help: "check the configuration of the service, also while it runs",
      run: check,
    }],
    ["healthcheck", {
      help: "ask the service whether it is ready; prints nothing if it is",
      run: (settings) => checkHealth(settings.address()),
    }],
    ["openapi", {
      help: "write the OpenAPI description to stdout",
      run: async (settings) => {
        await writeStdout(descriptionText(publicUrlOf(settings.address())));
        return 0;
      },
    }],
  ] satisfies [string, Command][],
);

const FLAGS: ReadonlySet<string | undefined> = new Set(
  ALL_SETTINGS.map(({ flag }) => flag),
);

/** An id among the arguments, which is not a flag. */
const NEGATIVE_ID = /^-\d/;

/** The exit status that a shell reports for a program ended by SIGPIPE. */
const EXIT_PIPE_CLOSED = 128 + 13;

/**
 * Runs the program.
 * @param args the arguments after the name of the program
 * @returns the exit status: 0, 1 for a failure, 2 if the command line or the
 * configuration must change, 141 if the reader of stdout has closed the pipe
 */
export async function main(args: readonly string[]): Promise<number> {
  const { words, flags, problem } = parseArguments(args);
  const settings = new Settings(flags, Deno.env);
  try {
    if (
      args.includes("--help") || args.includes("-h") || words[0] === "help"
    ) {
      await writeStdout(`${help()}\n`);
      return 0;
    }
    if (args.includes("--version")) {
      const { deno } = Deno.version;
      await writeStdout(`plant-store ${VERSION} (deno ${deno})\n`);
      return 0;
    }
    if (problem !== undefined) throw new OperatorError(problem);
    const { run, operands } = readCommand(words);
    return await run(settings, operands);
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_PIPE_CLOSED;
    return report(error, logFormatOf(settings));
  }
}

/**
 * Splits arguments into words and flags: `--flag value` or `--flag=value`.
 * @returns the words, the flags, and a message about the first unknown,
 * duplicate or incomplete flag
 */
export function parseArguments(args: readonly string[]) {
  const words: string[] = [];
  const flags = new Map<string, string>();
  let problem: string | undefined;
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [, flag = arg, inline] = /^([^=]*)=(.*)/s.exec(arg) ?? [];
    const [next] = rest;
    if (!arg.startsWith("-") || arg === "-" || NEGATIVE_ID.test(arg)) {
      words.push(arg);
    } else if (!FLAGS.has(flag)) {
      problem ??= `unknown flag ${flag}: see --help`;
    } else if (flags.has(flag)) {
      problem ??= `${flag} is given twice: give it once`;
    } else if (inline !== undefined) {
      flags.set(flag, inline);
    } else if (next === undefined) {
      problem ??= `${flag} needs a value: see --help`;
    } else if (next.startsWith("--")) {
      problem ??= `${flag} needs a value, got the flag ${next}`;
    } else {
      flags.set(flag, next);
      rest.shift();
    }
  }
  return { words, flags, problem };
}

/** Reports the error that ends the program, and returns its exit status. */
function report(error: unknown, format: LogFormat): number {
  const log = new Log(format);
  if (!(error instanceof OperatorError)) {
    log.internalError(error);
    return EXIT_FAILURE;
  }
  if (format === "text") writeStderr(`plant-store: ${toLine(error.message)}`);
  else log.error("failed", error.message);
  return error.exitStatus;
}

/** Returns the configured format, or text if the setting is invalid. */
function logFormatOf(settings: Settings): LogFormat {
  try {
    return settings.logFormat();
  } catch {
    return "text";
  }
}

/** Returns the command in the words, and its operands. */
function readCommand([name = "serve", ...operands]: readonly string[]) {
  const command = COMMANDS.get(name);
  if (command === undefined) {
    throw new OperatorError(`unknown command ${name}: see --help`);
  }
  const { operands: usage = "", run } = command;
  const [min, max] = OPERANDS[usage];
  if (operands.filter((operand) => operand !== "").length < min) {
    throw new OperatorError(`${name} needs ${usage}: see --help`);
  }
  if (operands.length > max) {
    throw new OperatorError(`unexpected argument ${operands[max]}: see --help`);
  }
  return { run, operands };
}

function help(): string {
  const commands = COMMANDS.entries().map(([name, { operands = "", help }]) =>
    `  ${`${name} ${operands}`.padEnd(16)} ${help}`
  );
  const settings = ALL_SETTINGS.map((setting) => {
    const { flag, variable, placeholder, help } = setting;
    const left = flag === undefined ? "" : `  ${flag} ${placeholder}`;
    const byDefault = setting.default ? ` (${setting.default})` : "";
    return `${left.padEnd(33)} ${variable.padEnd(18)} ${help}${byDefault}`;
  });
  return `plant-store ${VERSION}: creates plants over HTTP, POST /plants

Usage: plant-store [command] [operands] [flags]

${commands.toArray().join("\n")}

Flags, the environment variables beside them, and defaults; a flag wins:
${settings.join("\n")}
  --help
  --version

Examples:
  plant-store
  plant-store --port 9000 --kv /var/lib/plant-store/plants.db
  plant-store --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file tokens
  DENO_KV_ACCESS_TOKEN=secret plant-store --kv https://kv.example
  plant-store export --kv plants.db | plant-store import - --kv other.db`;
}
