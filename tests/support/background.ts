import assert from "node:assert/strict";
import { inTime } from "./waiting.ts";

/** The outcome of a process that has ended. */
export interface Ended {
  readonly status: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Returns what a process has printed; it must have succeeded. */
export function outputOf(
  { status, stdout, stderr }: Ended,
  what: string,
): string {
  assert.equal(status, 0, `${what}\n${stdout}${stderr}`);
  return stdout + stderr;
}

/** A process in the background, whose output is collected. */
export class BackgroundProcess implements AsyncDisposable {
  readonly process: Deno.ChildProcess;
  /** Everything it has written to stderr. */
  stderr = "";
  readonly #ended: Promise<Ended>;
  /** Resolves when it writes to stderr again. */
  #written = Promise.withResolvers<void>();

  constructor(command: string, options: Deno.CommandOptions) {
    this.process = new Deno.Command(command, {
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      ...options,
    }).spawn();
    this.#ended = this.#collect();
  }

  /**
   * Waits for output on stderr that matches a pattern; throws if the program
   * ends first, and after `WAIT_MS_MAX`.
   * @param from length of the earlier output to ignore
   */
  printed(pattern: RegExp, from = 0): Promise<RegExpExecArray> {
    return inTime(
      this.#printed(pattern, from),
      () => `${pattern} in: ${this.stderr}`,
    );
  }

  /**
   * Waits until it has ended, and every other process that has its stderr; kills
   * it if it has not ended after `WAIT_MS_MAX`, and throws.
   */
  async ended(): Promise<Ended> {
    try {
      return await inTime(this.#ended, () => `its end after: ${this.stderr}`);
    } catch (error) {
      this.signal("SIGKILL");
      throw error;
    }
  }

  /**
   * Waits for something that it causes; throws if it ends first, and after
   * `WAIT_MS_MAX`.
   */
  causes<T>(event: Promise<T>): Promise<T> {
    const early = this.#ended.then(({ stderr }) => {
      throw new Error(`it has ended: ${stderr}`);
    });
    const first = Promise.race([event, early]);
    return inTime(first, () => `what it causes, after: ${this.stderr}`);
  }

  /** Sends a signal, unless it has ended. */
  signal(signal: Deno.Signal): void {
    try {
      this.process.kill(signal);
    } catch {
      // It has ended already.
    }
  }

  /** Sends a signal and waits until it ends. */
  stop(signal: Deno.Signal = "SIGTERM"): Promise<Ended> {
    this.signal(signal);
    return this.ended();
  }

  /** Kills it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }

  async #printed(pattern: RegExp, from: number): Promise<RegExpExecArray> {
    for (let hasEnded = false;;) {
      const match = pattern.exec(this.stderr.slice(from));
      if (match !== null) return match;
      if (hasEnded) throw new Error(`no ${pattern} in: ${this.stderr}`);
      hasEnded = await Promise.race([
        this.#written.promise.then(() => false),
        this.#ended.then(() => true),
      ]);
    }
  }

  async #collect(): Promise<Ended> {
    const stdout = new Response(this.process.stdout).text();
    const decoder = new TextDecoder();
    for await (const chunk of this.process.stderr) {
      this.stderr += decoder.decode(chunk, { stream: true });
      this.#written.resolve();
      this.#written = Promise.withResolvers();
    }
    const { code, signal } = await this.process.status;
    const { stderr } = this;
    return { status: code, signal, stdout: await stdout, stderr };
  }
}
