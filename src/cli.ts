import { parseArgs } from "node:util";
import { removePlants, replacePlant } from "./commands/change.ts";
import { check } from "./commands/check.ts";
import { exportPlants } from "./commands/export.ts";
import { checkHealth } from "./commands/healthcheck.ts";
import { importPlants } from "./commands/import.ts";
import { writeDescription } from "./commands/openapi.ts";
import { serve } from "./commands/serve.ts";
import { ALL_SETTINGS, Settings } from "./config/settings.ts";
import { listenFailure, storeFailure } from "./console/failures.ts";
import { printLine, writeStdout } from "./console/output.ts";
import { ListenError } from "./http/server.ts";
import { ID_MAX, ID_MIN, ID_RANGE } from "./limits.ts";
import { EXIT_FAILURE, OperatorError } from "./operator_error.ts";
import { StoreError } from "./store/store_error.ts";
import { Log, type LogFormat } from "./telemetry/log.ts";
import { errorMessage } from "./text.ts";
import { VERSION } from "./version.ts";

/** A command of the program. */
interface Command {
  /** The operands as in the help, and how many there may be; none by default. */
  readonly operands?: string;
  readonly min?: number;
  readonly max?: number;
  readonly help: string;
  /** Returns the exit status. */
  readonly run: (
    settings: Settings,
    operands: readonly string[],
  ) => Promise<number>;
}

/** Every command, in the order of the help. */
const COMMANDS = new Map(Object.entries<Command>({
  serve: {
    help: "run the service; the default",
    run: serve,
  },
  export: {
    operands: "[ID...]",
    max: Infinity,
    help: "write these plants, or all, to stdout, one JSON object per line",
    run: (settings, ids) => exportPlants(settings.store(), idsOf(ids)),
  },
  import: {
    operands: "FILE",
    min: 1,
    max: 1,
    help: "create plants from such lines; - reads stdin",
    run: (settings, [file = ""]) => importPlants(settings, file),
  },
  remove: {
    operands: "ID...",
    min: 1,
    max: Infinity,
    help: "remove these plants, also while the service runs",
    run: (settings, ids) => removePlants(settings.store(), idsOf(ids)),
  },
  replace: {
    operands: "PLANT",
    min: 1,
    max: 1,
    help: "store this plant in place of the one with its id; - reads stdin",
    run: (settings, [text = ""]) => replacePlant(settings.store(), text),
  },
  check: {
    help: "check the configuration of the service, also while it runs",
    run: check,
  },
  healthcheck: {
    help: "ask the service whether it is ready; prints nothing if it is",
    run: checkHealth,
  },
  openapi: {
    help: "write the OpenAPI description to stdout",
    run: writeDescription,
  },
}));

const DEFAULT_COMMAND = "serve";

/** Parses the operands of a command as ids. @throws {OperatorError} */
function idsOf(operands: readonly string[]): readonly bigint[] {
  return operands.map((text) => {
    const id = /^-?\d{1,40}$/.test(text) ? BigInt(text) : undefined;
    if (id !== undefined && id >= ID_MIN && id <= ID_MAX) return id;
    throw new OperatorError(`expected an id ${ID_RANGE}, got "${text}"`);
  });
}

/** The exit status that a shell reports for a program ended by SIGPIPE. */
const EXIT_PIPE_CLOSED = 128 + 13;

/**
 * Runs the program.
 * @param args the arguments after the name of the program
 * @returns the exit status: 0, 1 for a failure, 2 if the command line or the
 * configuration must change, 141 if the reader of stdout has closed the pipe
 */
export async function main(args: readonly string[]): Promise<number> {
  try {
    const { help, version, flags, positionals } = parseCommandLine(args);
    const [name = DEFAULT_COMMAND, ...operands] = positionals;
    // The help does not list these two commands: people try them without the help.
    if (help || name === "help") {
      await writeStdout(helpText());
      return 0;
    }
    if (version || name === "version") {
      const { deno } = Deno.version;
      await writeStdout(`plant-store ${VERSION} (deno ${deno})\n`);
      return 0;
    }
    const settings = new Settings(flags, (name) => Deno.env.get(name));
    return await runCommand(commandOf(name, operands), settings, operands);
  } catch (error) {
    // A person reads this, so it is text, whatever the format of the log is.
    return report(error, "text");
  }
}

/** A command line, split. */
interface CommandLine {
  readonly help: boolean;
  readonly version: boolean;
  /** The values of the flags that are settings. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  /** The name of the command and its operands. */
  readonly positionals: readonly string[];
}

/** The flags of the settings, as `parseArgs()` takes them. */
const SETTING_FLAGS: Record<string, { readonly type: "string" }> = {};
for (const { flag } of ALL_SETTINGS) {
  if (flag !== undefined) SETTING_FLAGS[flag] = { type: "string" };
}

/** Splits a command line. @throws {OperatorError} */
function parseCommandLine(args: readonly string[]): CommandLine {
  // Deno replaces what is not UTF-8, and the path of a store would be another one.
  if (args.some((arg) => arg.includes("\ufffd"))) {
    throw new OperatorError("expected arguments in UTF-8");
  }
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: {
        ...SETTING_FLAGS,
        help: { type: "boolean", short: "h" },
        version: { type: "boolean", short: "v" },
        // The short form that other programs have.
        V: { type: "boolean", short: "V" },
      },
      allowPositionals: true,
    });
    const { help = false, version = false, V = false, ...flags } = values;
    return { help, version: version || V, flags, positionals };
  } catch (error) {
    // Without Node's advice, whose quotes are unbalanced.
    const [problem = ""] = errorMessage(error).split(/\.\s/);
    const advice = /^Unknown option '-\d/.test(problem)
      ? ": write -- before negative ids"
      : "";
    throw new OperatorError(`${problem}${advice}: see --help`);
  }
}

/** Returns a command that accepts the operands. @throws {OperatorError} */
function commandOf(name: string, { length }: readonly string[]): Command {
  const command = COMMANDS.get(name);
  if (command === undefined) {
    throw new OperatorError(`unknown command ${name}: see --help`);
  }
  const { operands = "no operands", min = 0, max = 0 } = command;
  if (length >= min && length <= max) return command;
  throw new OperatorError(`${name} takes ${operands}: see --help`);
}

/** Runs a command, and reports the error that ends it. Returns the exit status. */
async function runCommand(
  { run }: Command,
  settings: Settings,
  operands: readonly string[],
): Promise<number> {
  try {
    return await run(settings, operands);
  } catch (error) {
    // Throws if the format is invalid: main() then reports that, as text.
    const format = run === serve ? settings.logFormat() : "text";
    return report(toOperatorError(error, settings), format);
  }
}

/**
 * Converts an error of the store or of the listener: the line that ends the command
 * names the settings to check. Returns any other error as it is.
 */
function toOperatorError(error: unknown, settings: Settings): unknown {
  if (error instanceof StoreError) return storeFailure(settings.store(), error);
  if (error instanceof ListenError) return listenFailure(settings, error);
  return error;
}

/** Reports the error that ends the program. Returns the exit status. */
function report(error: unknown, format: LogFormat): number {
  if (error instanceof Deno.errors.BrokenPipe) return EXIT_PIPE_CLOSED;
  const log = new Log(format);
  if (!(error instanceof OperatorError)) {
    log.internalError(error);
    return EXIT_FAILURE;
  }
  if (format === "text") printLine(`plant-store: ${error.message}`);
  else log.error("failed", error.message);
  return error.exitStatus;
}

/** Returns the help, in lines of at most 80 columns. */
function helpText(): string {
  const commands = COMMANDS.entries().map(([name, { operands = "", help }]) =>
    `  ${`${name} ${operands}`.padEnd(14)} ${help}\n`
  );
  const settings = ALL_SETTINGS.map((setting) => {
    const { flag, variable, placeholder, help } = setting;
    const left = flag === undefined ? "" : `--${flag} ${placeholder}`;
    const byDefault = setting.default ? ` (${setting.default})` : "";
    return `  ${left.padEnd(33)} ${variable}\n      ${help}${byDefault}\n`;
  });
  return `plant-store ${VERSION}: creates plants over HTTP, POST /plants

Usage: plant-store [command] [operands] [flags]

${commands.toArray().join("")}
Flags, the environment variables beside them, and defaults; a flag wins:
${settings.join("")}  -h, --help
  -v, --version

Exit status:
  0    success, or a signal has stopped the service
  1    it failed, and trying again may help; or some plants could not be
       exported, removed or replaced
  2    change the command or the configuration first
  ${EXIT_PIPE_CLOSED}  the reader of the output has closed the pipe

Examples:
  plant-store --port 9000 --kv /var/lib/plant-store/plants.db
  plant-store --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  plant-store export --kv plants.db | plant-store import - --kv other.db
  plant-store remove 7 -- -1
  plant-store replace '{"id": 7, "name": "Monstera"}'
`;
}
