/** Several instances of the service on one store, and clients of all of them. */
import assert from "node:assert/strict";
import type { Ledger } from "./ledger.ts";
import { newPlants } from "./plants.ts";
import { Program, type Target } from "./program.ts";
import { freePort } from "./tools.ts";
import { inParallel, pause, settleAll } from "./waiting.ts";

/** An instance of the service, on a port that it keeps over restarts. */
export class Instance implements AsyncDisposable {
  readonly port = freePort();
  readonly origin = `http://127.0.0.1:${this.port}`;
  readonly #store: string;
  readonly #env: Readonly<Record<string, string>>;
  #program: Program | undefined;

  private constructor(store: string, env: Readonly<Record<string, string>>) {
    this.#store = store;
    this.#env = env;
  }

  static async start(
    store: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<Instance> {
    const instance = new Instance(store, env);
    await instance.start();
    return instance;
  }

  /** Starts it again. */
  async start(): Promise<void> {
    const options = { env: this.#env, port: this.port };
    this.#program = await Program.start(this.#store, options);
  }

  /** Stops the process for a time. */
  async freeze(ms: number): Promise<void> {
    this.#program?.process.kill("SIGSTOP");
    await pause(ms);
    this.#program?.process.kill("SIGCONT");
  }

  /** Ends it, and asserts that nothing but the signal ended it. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const ended = await this.#program?.stop(signal);
    this.#program = undefined;
    const expected = signal === "SIGKILL" ? signal : 0;
    assert.equal(ended?.signal ?? ended?.status, expected, ended?.stderr);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program?.[Symbol.asyncDispose]();
  }
}

const CLIENTS = 8;
const CLIENT_RETRY_MS = 20;

/**
 * Sends creates to each target in turn until an event is over.
 * @param idOf returns the id of a create from its number: 1, 2 and so on
 */
export async function createDuring(
  targets: readonly Target[],
  ledger: Ledger,
  event: () => Promise<void>,
  idOf = (number: bigint): bigint => number,
): Promise<void> {
  let isOver = false;
  function* numbers() {
    for (let number = 1n; !isOver; number++) yield number;
  }
  const clients = inParallel(numbers(), async (number) => {
    const target = targets[Number(number) % targets.length];
    const [newPlant] = newPlants([idOf(number)]);
    assert.ok(target !== undefined && newPlant !== undefined);
    const { status } = await ledger.send(target, newPlant);
    if (status !== 200) await pause(CLIENT_RETRY_MS);
  }, CLIENTS);
  await settleAll([clients, event().finally(() => isOver = true)]);
}
