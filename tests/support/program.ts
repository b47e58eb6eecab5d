import assert from "node:assert/strict";
import project from "../../deno.json" with { type: "json" };
import { BackgroundProcess, type Ended } from "./background.ts";
import { ROOT } from "./readme.ts";
import { eventually, WAIT_MS_MAX } from "./waiting.ts";
import { TOKEN } from "./wire.ts";

/** A program under test accepts this token by default. */
export { TOKEN };

/** The compiled binary to test, if the environment names one. */
export const BINARY = Deno.env.get("PLANT_STORE");

/** The address that a service listens on, and the end of its banner. */
const BANNER =
  /listens on (https?:\/\/[^\s"]+)[^]*\n(?:API reference: \S+\r?\n\r?\n|.*"event":"(?:new )?store".*\n)/;

/** Traces of the runtime that must not reach a person. */
export const STACK =
  /\bat .*:\d+:\d+|^\s*at |Uncaught|panicked|Stack backtrace|Top-level await/m;

/** How to start a program, beside its arguments. */
export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: "piped" | "null";
  /** A script of the shell to run it with, as `"$0" "$@"`. */
  readonly shell?: string;
}

/** How to start a service, beside its store. */
interface ServiceOptions extends ProgramOptions {
  readonly flags?: readonly string[];
  /** A free one if absent. */
  readonly port?: number;
}

/** Returns what `deno task serve` runs: environment, flags and main.ts. */
function startCommand(): { env: Record<string, string>; args: string[] } {
  const words = project.tasks.serve.command.split(" ");
  const deno = words.indexOf("deno");
  const env = words.slice(0, deno).map((word) => {
    const equals = word.indexOf("=");
    return [word.slice(0, equals), word.slice(equals + 1)];
  });
  return {
    env: Object.fromEntries(env),
    args: words.slice(deno + 1).with(-1, `${ROOT.pathname}main.ts`),
  };
}

/** Returns the command of the program: the binary, or `deno task serve`. */
function command(
  args: readonly string[],
  { env = {}, cwd, stdin = "null", shell }: ProgramOptions,
): [command: string, options: Deno.CommandOptions] {
  const start = startCommand();
  const program = BINARY === undefined
    ? [Deno.execPath(), ...start.args, ...args]
    : [BINARY, ...args];
  const [first = "", ...rest] = shell === undefined
    ? program
    : ["/bin/sh", "-c", shell, ...program];
  return [first, {
    args: rest,
    clearEnv: true,
    env: {
      // Where Deno has its cache; an empty variable counts as none.
      HOME: Deno.env.get("HOME") ?? "",
      DENO_DIR: Deno.env.get("DENO_DIR") ?? "",
      ...start.env,
      NO_COLOR: "1",
      ...env,
    },
    ...(cwd !== undefined && { cwd }),
    stdin,
  }];
}

/** Runs the program until it ends. */
export function runProgram(
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<Ended> {
  return new BackgroundProcess(...command(args, options)).ended();
}

/** Runs an import of a file into a store. */
export function importFile(store: string, file: string): Promise<Ended> {
  return runProgram(["import", file, "--kv", store]);
}

/** Exports a store, which must succeed without a message. */
export async function exportLines(store: string): Promise<string[]> {
  const ended = await runProgram(["export", "--kv", store]);
  assert.equal(ended.stderr, "");
  assert.equal(ended.status, 0);
  const lines = ended.stdout.split("\n");
  assert.equal(lines.pop(), "");
  return lines;
}

/** Asserts that a program has succeeded. */
export function assertSucceeded({ status, stderr }: Ended): void {
  assert.equal(status, 0, stderr);
}

/** Stops a service; asserts that it succeeds and has logged no error. */
export async function stopCleanly(service: Program): Promise<void> {
  const ended = await service.stop();
  assertSucceeded(ended);
  assert.doesNotMatch(ended.stderr, /error/);
}

/** Asserts that a program ended with a status and one line for the operator. */
export function assertOneLine(
  { status, stdout, stderr }: Ended,
  expectedStatus: number,
  message: RegExp | string,
): void {
  assert.match(stderr, /^plant-store: [^\n]+\n$/);
  assert.doesNotMatch(stderr, STACK);
  if (typeof message !== "string") assert.match(stderr, message);
  else assert.equal(stderr, `plant-store: ${message}\n`);
  assert.equal(stdout, "");
  assert.equal(status, expectedStatus, stderr);
}

/** Where creates are sent. */
export interface Target {
  readonly origin: string;
  /** Defaults to that of `fetch`. */
  readonly httpClient?: Deno.HttpClient;
}

/** Sends POST /plants with a body; by default, fails after `WAIT_MS_MAX`. */
export function post(
  { origin, httpClient }: Target,
  body: BodyInit,
  headers: Readonly<Record<string, string>> = {},
  signal: AbortSignal = AbortSignal.timeout(WAIT_MS_MAX),
): Promise<Response> {
  return fetch(`${origin}/plants`, {
    ...(httpClient && { client: httpClient }),
    method: "POST",
    headers: {
      // Replies can be read in a trace: Deno compresses long ones.
      "accept-encoding": "identity",
      "authorization": `Bearer ${TOKEN}`,
      "content-type": "application/json",
      ...headers,
    },
    body,
    signal,
  });
}

/** A running service. */
export class Program extends BackgroundProcess {
  /** The address that it listens on. */
  origin = "";

  /**
   * Starts the service and waits for the end of its banner.
   * @param store a file, or the URL of a KV Connect server
   */
  static async start(
    store: string,
    { flags = [], port = 0, ...options }: ServiceOptions = {},
  ): Promise<Program> {
    const args = ["--port", `${port}`, "--kv", store, ...flags];
    await using unstarted = new AsyncDisposableStack();
    const program = unstarted.use(Program.spawn(args, options));
    const [, origin = ""] = await program.printed(BANNER);
    program.origin = origin;
    unstarted.move();
    return program;
  }

  /** Starts the program without waiting for it. */
  static spawn(args: readonly string[], options: ProgramOptions = {}): Program {
    const token = "ACCESS_TOKEN_FILE" in (options.env ?? {})
      ? {}
      : { ACCESS_TOKEN: TOKEN };
    const env = { ...token, ...options.env };
    return new Program(...command(args, { ...options, env }));
  }

  /** The port it listens on. */
  get port(): number {
    return Number(new URL(this.origin).port);
  }

  /** Sends SIGHUP, and returns the line that it logs. */
  async reload(): Promise<string> {
    const { length } = this.stderr;
    this.process.kill("SIGHUP");
    const [line] = await this.printed(/[^\n]*\n/, length);
    return line;
  }

  /** Sends POST /plants with a body. */
  create(body: string, token: string = TOKEN): Promise<Response> {
    return post(this, body, { authorization: `Bearer ${token}` });
  }

  /** Sends GET, with the token. */
  get(path: string): Promise<Response> {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const signal = AbortSignal.timeout(WAIT_MS_MAX);
    return fetch(this.origin + path, { headers, signal });
  }

  /** Returns the value of a metric, whose name includes its labels. */
  async metric(name: string): Promise<number> {
    const response = await this.get("/metrics");
    const lines = (await response.text()).split("\n");
    const line = lines.find((line) => line.startsWith(`${name} `));
    assert.ok(line !== undefined, `no metric ${name}`);
    return Number(line.slice(name.length));
  }
}

/** Returns the status of a reply, and discards its body. */
export async function replyStatus(reply: Promise<Response>): Promise<number> {
  const { status, body } = await reply;
  await body?.cancel();
  return status;
}

/** Waits until GET /readyz has a status. */
export async function untilReady(
  { origin }: Target,
  status = 200,
): Promise<void> {
  await eventually(async () => {
    const signal = AbortSignal.timeout(WAIT_MS_MAX);
    const found = await replyStatus(fetch(`${origin}/readyz`, { signal }));
    return found === status;
  });
}

/**
 * Asserts that a service has reported how its store failed and recovered, and no
 * state of it twice in a row. On a busy machine, a failing store may also give no
 * answer for a while.
 */
export function assertRecovered({ stderr }: Ended): void {
  const states = stderr.match(
    /error: the store fails \(.*|info: the store has recovered$/gm,
  ) ??
    [];
  assert.match(states[0] ?? "", /fails/, stderr);
  assert.match(states.at(-1) ?? "", /recovered/, stderr);
  for (const [i, state] of states.entries()) {
    assert.notEqual(state, states[i - 1], stderr);
  }
}

/** Counts the occurrences of a pattern in the output of a program. */
export function occurrences(output: string, pattern: RegExp): number {
  const everywhere = new RegExp(pattern, `${pattern.flags}g`);
  return output.matchAll(everywhere).toArray().length;
}
