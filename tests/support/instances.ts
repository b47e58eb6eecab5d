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

  /** What the current process has logged. */
  get logged(): string {
    return this.#program?.stderr ?? "";
  }

  /** Waits until the current process has logged something. */
  async printed(pattern: RegExp): Promise<void> {
    await this.#program?.printed(pattern);
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

/** How long a client pauses between two creates. */
const PAUSE_MS = 40;

/** Clients that send creates through nginx, each on its own connection. */
export class Load implements Disposable {
  readonly #nginx: Nginx;
  readonly #ledger: Ledger;
  readonly #random: Random;
  readonly #clients: readonly Deno.HttpClient[];
  readonly #inFlight = new Set<Promise<Answer>>();

  constructor(
    nginx: Nginx,
    { connections, ledger, random }: {
      readonly connections: number;
      readonly ledger: Ledger;
      readonly random: Random;
    },
  ) {
    this.#nginx = nginx;
    this.#ledger = ledger;
    this.#random = random;
    this.#clients = Array.from({ length: connections }, () => nginx.client());
  }

  /** Sends creates of new plants while something happens; counts replies. */
  async during(event: (tally: Tally) => Promise<unknown>): Promise<Tally> {
    const tally = new Tally();
    let isOver = false;
    const loads = this.#clients.map(async (client) => {
      while (!isOver) {
        const id = drawId(this.#random);
        const plant = drawPlant(this.#random);
        tally.add(await this.#create({ id, plant }, client));
        await pause(PAUSE_MS);
      }
    });
    await Promise.all([...loads, event(tally).finally(() => isOver = true)]);
    return tally;
  }

  /** Sends a create and records it with its reply. */
  #create(newPlant: NewPlant, client: Deno.HttpClient): Promise<Answer> {
    const reply = this.#ledger.send(this.#nginx, newPlant, { client });
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
