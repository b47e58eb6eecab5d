/** Several instances of the service on one store, and a load on all of them. */
import assert from "node:assert/strict";
import type { NewPlant } from "../../src/plant/plant.ts";
import {
  type Answer,
  drawPlant,
  eventually,
  type Ledger,
  pause,
  Tally,
} from "./load.ts";
import type { Nginx } from "./nginx.ts";
import { Program } from "./program.ts";
import type { Random } from "./random.ts";
import { freePort } from "./tools.ts";
import { drawId } from "./transfer.ts";

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
    this.#program = await Program.start(["--kv", this.#store], options);
  }

  /** Waits until the current process has made some commits. */
  async commits(count: number): Promise<void> {
    await eventually(
      (commits = 0) => commits >= count,
      async () => await this.#program?.metric("plant_store_commits_total"),
    );
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

/** Where to send which load. */
interface LoadOptions {
  readonly nginx: Nginx;
  readonly connections: number;
  /** Creates per second, of all connections together. */
  readonly perSecond: number;
  readonly ledger: Ledger;
  readonly random: Random;
}

/** Clients that send creates at a constant rate, each on its own connection. */
export class ConstantLoad implements Disposable {
  readonly #options: LoadOptions;
  readonly #clients: readonly Deno.HttpClient[];
  readonly #inFlight = new Set<Promise<Answer>>();

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#clients = Array.from(
      { length: options.connections },
      () => options.nginx.client(),
    );
  }

  /** Sends creates of new plants while something happens; counts replies. */
  async during(event: (tally: Tally) => Promise<unknown>): Promise<Tally> {
    const { connections, perSecond, random } = this.#options;
    const intervalMs = 1_000 * connections / perSecond;
    const tally = new Tally();
    let isOver = false;
    const startMs = performance.now();
    const loads = this.#clients.map(async (client, i) => {
      // The connections take turns; after a slow reply none catches up.
      let nextMs = startMs + intervalMs * i / connections;
      while (!isOver) {
        await pause(Math.max(0, nextMs - performance.now()));
        const newPlant = { id: drawId(random), plant: drawPlant(random) };
        tally.add(await this.create(newPlant, client));
        nextMs = Math.max(nextMs + intervalMs, performance.now());
      }
    });
    await Promise.all([...loads, event(tally).finally(() => isOver = true)]);
    return tally;
  }

  /** Sends a create and records it with its reply. */
  create(newPlant: NewPlant, client = this.#clients[0]): Promise<Answer> {
    const { ledger, nginx } = this.#options;
    const reply = ledger.send(nginx, newPlant, { ...(client && { client }) });
    this.#inFlight.add(reply);
    const end = () => this.#inFlight.delete(reply);
    reply.then(end, end);
    return reply;
  }

  /** Waits until every create sent so far is answered. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#inFlight);
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients) client.close();
  }
}
