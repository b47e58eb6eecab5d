/** Several instances of the service on one store, and a load on all of them. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { NewPlant } from "../../src/plant/plant.ts";
import {
  drawPlant,
  eventually,
  type Ledger,
  metricOf,
  type Reply,
  send,
  Tally,
} from "./load.ts";
import type { Nginx } from "./nginx.ts";
import { type Ended, Program, statusOf } from "./program.ts";
import type { Random } from "./random.ts";
import { freePort } from "./tools.ts";
import { drawId } from "./transfer.ts";

/** An instance on a port of its own, which it keeps over restarts. */
export class Instance implements AsyncDisposable {
  readonly port = freePort();
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #program: Program;

  private constructor(store: string, env: Readonly<Record<string, string>>) {
    this.#args = ["--port", String(this.port), "--kv", store];
    this.#env = env;
    this.#program = this.#spawn();
  }

  /** Starts an instance and waits until it is ready. */
  static async start(
    store: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<Instance> {
    const instance = new Instance(store, env);
    await instance.#program.printed(/ listens on /);
    await instance.ready();
    return instance;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Waits until a create would be stored. */
  async ready(): Promise<void> {
    await eventually(
      (status) => status === 200,
      () => statusOf(fetch(`${this.origin}/readyz`)),
    );
  }

  /** Waits until the current process has made some commits. */
  async commits(count: number): Promise<void> {
    await eventually(
      (commits) => commits >= count,
      () => metricOf(this, "plant_store_commits_total"),
    );
  }

  /** Ends the process with a signal, starts another, and waits for it. */
  async restart(signal: "SIGTERM" | "SIGKILL"): Promise<Ended> {
    const ended = await this.#program.stop(signal);
    this.#program = this.#spawn();
    await this.#program.printed(/ listens on /);
    await this.ready();
    return ended;
  }

  /** Stops it, and asserts that it answered everything. */
  async stop(): Promise<void> {
    const { status, stderr } = await this.#program.stop();
    assert.equal(status, 0, stderr);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program[Symbol.asyncDispose]();
  }

  #spawn(): Program {
    return Program.spawn(this.#args, { env: this.#env });
  }
}

/** Where to send which load. */
export interface LoadOptions {
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
  readonly #inFlight = new Set<Promise<Reply>>();

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
        await sleep(Math.max(0, nextMs - performance.now()));
        const newPlant = { id: drawId(random), plant: drawPlant(random) };
        tally.add(await this.create(newPlant, client));
        nextMs = Math.max(nextMs + intervalMs, performance.now());
      }
    });
    await Promise.all([...loads, event(tally).finally(() => isOver = true)]);
    return tally;
  }

  /** Sends a create and records it with its reply. */
  create(newPlant: NewPlant, client = this.#clients[0]): Promise<Reply> {
    const { ledger, nginx } = this.#options;
    const reply = ledger.record(
      newPlant,
      (newPlant) => send(nginx, newPlant, { ...(client && { client }) }),
    );
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
