import { DatabaseSync } from "node:sqlite";
import tasks from "../../deno.json" with { type: "json" };

/** The token that a program under test accepts unless told otherwise. */
export const TOKEN = "test-token";

/** The folder of the project. */
const PROJECT = new URL("../../", import.meta.url).pathname;

/** Where the test environment names a compiled binary, that is the program. */
const BINARY = Deno.env.get("PLANT_STORE");

/** How long to wait for a line of a program: none takes near as long. */
const PRINTED_MS_MAX = 30_000;

/** What a started program is given beside its arguments. */
export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: "piped" | "null";
  /** Whether no token is configured by ACCESS_TOKEN. */
  readonly ownToken?: boolean;
  /** How many file descriptors it may have; as many as the test if absent. */
  readonly openFilesMax?: number;
  /** What a shell runs instead; `"$0" "$@"` stands for the program. */
  readonly shell?: string;
}

/** The ended run of a program. */
export interface Ended {
  readonly status: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What `deno task start` runs: environment, then flags and main.ts. */
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

/** The program, not yet started: the binary, or what `deno task start` runs. */
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

/** Runs the program to its end. */
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
  /** What it printed on stderr so far. */
  stderr = "";
  /** Where it listens. */
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

  /** Starts the program and does not wait. */
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
   * Waits until it printed something on stderr; throws where it ended first, or
   * let {@link PRINTED_MS_MAX} go by.
   */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    let isOver = false;
    const end = () => {
      isOver = true;
      this.#tell();
    };
    this.#ended.then(end);
    const timer = setTimeout(end, PRINTED_MS_MAX);
    try {
      for (;;) {
        const match = pattern.exec(this.stderr);
        if (match !== null) return match;
        if (isOver) throw new Error(`no ${pattern} in: ${this.stderr}`);
        await new Promise<void>((resolve) => this.#watchers.push(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits for its end. */
  ended(): Promise<Ended> {
    return this.#ended;
  }

  /** Sends a signal and waits for its end. */
  stop(signal: Deno.Signal = "SIGTERM"): Promise<Ended> {
    try {
      this.process.kill(signal);
    } catch {
      // It ended already.
    }
    return this.#ended;
  }

  /** Ends it at once, whatever it does. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }

  /** Sends POST /plants with the body given, as text or as a value. */
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
      this.#tell();
    }
    const { code, signal } = await this.process.status;
    const { stderr } = this;
    return { status: code, signal, stdout: await stdout, stderr };
  }

  #tell(): void {
    const watchers = this.#watchers;
    this.#watchers = [];
    for (const watcher of watchers) watcher();
  }
}

/** The path of a new store in a temporary folder, removed with it. */
export class TemporaryFolder implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "plant-store-" });

  /** A path in the folder. */
  file(name: string): string {
    return `${this.path}/${name}`;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Whether a machine has a command that ends well with these arguments. */
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

/** A store that takes no write until this is disposed of: another has its lock. */
export class StoreLock implements Disposable {
  readonly #database: DatabaseSync;

  /** @param kind a lock as SQLite calls it */
  constructor(file: string, kind: "IMMEDIATE" | "EXCLUSIVE" = "IMMEDIATE") {
    this.#database = new DatabaseSync(file);
    // The program may be at the end of a write of its own.
    this.#database.exec(`PRAGMA busy_timeout = 10000; BEGIN ${kind}`);
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }
}
