import tasks from "../../deno.json" with { type: "json" };

/** The token that a program under test accepts by default. */
export const TOKEN = "test-token";

/** The root of the project. */
const PROJECT = new URL("../../", import.meta.url).pathname;

/** The compiled binary to test, if the environment names one. */
const BINARY = Deno.env.get("PLANT_STORE");

/** Longest wait for a line of a program, many times what any takes. */
const PRINTED_MS_MAX = 30_000;

/** How to start a program, beside its arguments. */
export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: "piped" | "null";
  /** Whether to leave ACCESS_TOKEN out. */
  readonly ownToken?: boolean;
  /** Its limit of file descriptors; that of the test if absent. */
  readonly openFilesMax?: number;
  /** A script of the shell to run it with, as `"$0" "$@"`. */
  readonly shell?: string;
}

/** The outcome of a program that has ended. */
export interface Ended {
  readonly status: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Returns what `deno task start` runs: environment, flags and main.ts. */
function startCommand(): { env: Record<string, string>; args: string[] } {
  const words = tasks.tasks.start.command.split(" ");
  const deno = words.indexOf("deno");
  const env = words.slice(0, deno).map((word) => {
    const equals = word.indexOf("=");
    return [word.slice(0, equals), word.slice(equals + 1)];
  });
  return {
    env: Object.fromEntries(env),
    args: words.slice(deno + 1).with(-1, `${PROJECT}main.ts`),
  };
}

/** Returns the command of the program: the binary, or `deno task start`. */
function command(
  args: readonly string[],
  { env = {}, cwd, stdin = "null", openFilesMax, shell }: ProgramOptions,
): Deno.Command {
  const start = startCommand();
  const program = BINARY === undefined
    ? [Deno.execPath(), ...start.args, ...args]
    : [BINARY, ...args];
  const script = openFilesMax === undefined
    ? shell
    : `ulimit -n ${openFilesMax}; exec "$0" "$@"`;
  const [first = "", ...rest] = script === undefined
    ? program
    : ["/bin/sh", "-c", script, ...program];
  const home = Deno.env.get("HOME");
  const cache = Deno.env.get("DENO_DIR");
  return new Deno.Command(first, {
    args: rest,
    clearEnv: true,
    env: {
      ...(BINARY === undefined && home !== undefined && { HOME: home }),
      ...(BINARY === undefined && cache !== undefined && { DENO_DIR: cache }),
      ...start.env,
      NO_COLOR: "1",
      ...env,
    },
    ...(cwd !== undefined && { cwd }),
    stdin,
    stdout: "piped",
    stderr: "piped",
  });
}

/** Runs the program until it ends. */
export async function runProgram(
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<Ended> {
  const { code, signal, stdout, stderr } = await command(args, options)
    .output();
  const decoder = new TextDecoder();
  return {
    status: code,
    signal,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

/** A running service. */
export class Program implements AsyncDisposable {
  readonly process: Deno.ChildProcess;
  /** Everything it has written to stderr. */
  stderr = "";
  /** The address that it listens on. */
  origin = "";
  readonly #ended: Promise<Ended>;
  #watchers: (() => void)[] = [];

  private constructor(process: Deno.ChildProcess) {
    this.process = process;
    this.#ended = this.#collect();
  }

  /** Starts the service on a free port and waits until it listens. */
  static async start(
    args: readonly string[],
    options: ProgramOptions = {},
  ): Promise<Program> {
    const program = Program.spawn(["--port", "0", ...args], options);
    const [, origin = ""] = await program.printed(
      /listen(?:s|ing) on (https?:\/\/[^\s"]+)/,
    );
    program.origin = origin;
    return program;
  }

  /** Starts the program without waiting for it. */
  static spawn(
    args: readonly string[],
    options: ProgramOptions = {},
  ): Program {
    const env = { ACCESS_TOKEN: TOKEN, ...options.env };
    const { ownToken = "ACCESS_TOKEN_FILE" in env } = options;
    if (ownToken) Reflect.deleteProperty(env, "ACCESS_TOKEN");
    return new Program(command(args, { ...options, env }).spawn());
  }

  /** The port it listens on. */
  get port(): number {
    return Number(new URL(this.origin).port);
  }

  /**
   * Waits for output on stderr that matches a pattern; throws if the program
   * ends first, or after {@link PRINTED_MS_MAX}.
   */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    let hasEnded = false;
    const end = () => {
      hasEnded = true;
      this.#notify();
    };
    this.#ended.then(end);
    const timer = setTimeout(end, PRINTED_MS_MAX);
    try {
      for (;;) {
        const match = pattern.exec(this.stderr);
        if (match !== null) return match;
        if (hasEnded) throw new Error(`no ${pattern} in: ${this.stderr}`);
        await new Promise<void>((resolve) => this.#watchers.push(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits until it ends. */
  ended(): Promise<Ended> {
    return this.#ended;
  }

  /** Sends a signal and waits until it ends. */
  stop(signal: Deno.Signal = "SIGTERM"): Promise<Ended> {
    try {
      this.process.kill(signal);
    } catch {
      // It has ended already.
    }
    return this.#ended;
  }

  /** Kills it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }

  /** Sends POST /plants with a body, as text or as a JSON value. */
  create(body: unknown, token: string = TOKEN): Promise<Response> {
    return fetch(`${this.origin}/plants`, {
      method: "POST",
      headers: {
        "authorization": `Bearer ${token}`,
        "content-type": "application/json",
      },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  }

  async #collect(): Promise<Ended> {
    const stdout = new Response(this.process.stdout).text();
    const decoder = new TextDecoder();
    for await (const chunk of this.process.stderr) {
      this.stderr += decoder.decode(chunk, { stream: true });
      this.#notify();
    }
    const { code, signal } = await this.process.status;
    const { stderr } = this;
    return { status: code, signal, stdout: await stdout, stderr };
  }

  #notify(): void {
    const watchers = this.#watchers;
    this.#watchers = [];
    for (const watcher of watchers) watcher();
  }
}

/** Whether a command exists and succeeds with some arguments. */
export async function has(
  command: string,
  ...args: string[]
): Promise<boolean> {
  try {
    return (await new Deno.Command(command, { args }).output()).success;
  } catch {
    return false;
  }
}
