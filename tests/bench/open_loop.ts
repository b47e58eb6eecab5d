/**
 * An open-loop load: creates arrive at a fixed rate, whether or not earlier
 * ones were answered, as those of many independent clients do. Each has a
 * deadline, after which its client closes the connection, and up to three
 * retries. A create uses an idle connection, or opens one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { request } from "../support/wire.ts";

/** Time from the arrival of a create until its client gives up. */
const DEADLINE_MS = 1_000;

const RETRIES_MAX = 3;

/** Delay before a retry without `Retry-After`. */
const RETRY_MS = 100;

/** Interval at which due creates are sent, and late ones are given up. */
const TICK_MS = 5;

/** More than a reply to a create has. */
const REPLY_BYTES_MAX = 4096;

const decoder = new TextDecoder();

/** A constant rate of creates. */
export interface Phase {
  readonly perSecond: number;
  readonly seconds: number;
}

/** The creates that arrived in one second, by outcome. */
export interface Second {
  /** Answered 200 by the deadline. */
  useful: number;
  /** Not answered 200 by the deadline. */
  late: number;
}

/** A connection to the server. */
interface Connection {
  readonly tcp: Deno.TcpConn;
  readonly buffer: Uint8Array<ArrayBuffer>;
}

/** A create, until it is answered 200 or given up. */
interface Create {
  readonly request: Uint8Array;
  readonly second: Second;
  readonly deadlineMs: number;
  /** Closes the connection that it uses or opens. */
  hangUp: () => void;
  isOver: boolean;
}

/** Many clients of one server, for one run. */
export class OpenLoop {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  /** In the order of their deadlines; those before `#firstOpen` are over. */
  readonly #creates: Create[] = [];
  #firstOpen = 0;
  #failure: unknown;
  /** The most by which a create was sent later than planned. */
  lagMs = 0;

  constructor(url: string) {
    this.#port = Number(new URL(url).port);
  }

  /**
   * Sends creates at the rates of some phases, without a pause in between;
   * returns the outcomes by second, for each phase.
   * @throws if a connection cannot be opened
   */
  async run(phases: readonly Phase[]): Promise<Second[][]> {
    const outcomes: Second[][] = [];
    let startMs = performance.now();
    for (const { perSecond, seconds } of phases) {
      const phase: Second[] = [];
      outcomes.push(phase);
      for (let i = 0; i < seconds; i++) {
        const second = { useful: 0, late: 0 };
        phase.push(second);
        await this.#runSecond(perSecond, startMs, second);
        startMs += 1000;
      }
    }
    while (this.#firstOpen < this.#creates.length) await this.#tick();
    for (const { tcp } of this.#idle) tcp.close();
    return outcomes;
  }

  async #runSecond(
    perSecond: number,
    startMs: number,
    second: Second,
  ): Promise<void> {
    for (let sent = 0; sent < perSecond;) {
      const elapsedMs = performance.now() - startMs;
      const lagMs = elapsedMs - sent * 1000 / perSecond;
      this.lagMs = Math.max(this.lagMs, lagMs);
      const due = Math.min(perSecond, elapsedMs * perSecond / 1000);
      for (; sent < due; sent++) this.#start(second);
      await this.#tick();
    }
  }

  /** Gives up the creates that have reached their deadline, and waits. */
  async #tick(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const nowMs = performance.now();
    for (;; this.#firstOpen++) {
      const create = this.#creates[this.#firstOpen];
      if (create === undefined) break;
      if (create.isOver) continue;
      if (create.deadlineMs > nowMs) break;
      create.isOver = true;
      create.second.late++;
      create.hangUp();
    }
    await sleep(TICK_MS);
  }

  #start(second: Second): void {
    const id = this.#creates.length;
    const create = {
      request: request(
        `{"id":${id},"name":"Monstera deliciosa","tag":"climber"}`,
      ),
      second,
      deadlineMs: performance.now() + DEADLINE_MS,
      hangUp: () => {},
      isOver: false,
    };
    this.#creates.push(create);
    this.#send(create).catch((error) => {
      if (!create.isOver) this.#failure = error;
    });
  }

  /** Sends a create, and repeats it, until it is answered 200 or over. */
  async #send(create: Create): Promise<void> {
    for (let attempt = 0; attempt <= RETRIES_MAX; attempt++) {
      const connection = this.#idle.pop() ?? await this.#connect(create);
      const reply = await this.#exchange(create, connection);
      if (create.isOver) return;
      if (reply.startsWith("HTTP/1.1 200 ")) {
        create.second.useful++;
        create.isOver = true;
        return;
      }
      const [, seconds] = /\r\nretry-after: (\d+)\r/i.exec(reply) ?? [];
      await sleep(seconds === undefined ? RETRY_MS : 1000 * Number(seconds));
      if (create.isOver) return;
    }
  }

  async #connect(create: Create): Promise<Connection> {
    const opening = new AbortController();
    create.hangUp = () => opening.abort();
    const { signal } = opening;
    const tcp = await Deno.connect({ port: this.#port, signal });
    return { tcp, buffer: new Uint8Array(REPLY_BYTES_MAX) };
  }

  /** Returns the reply on a connection, or "" if it was closed first. */
  async #exchange(create: Create, connection: Connection): Promise<string> {
    const { tcp, buffer } = connection;
    create.hangUp = () => tcp.close();
    if (create.isOver) create.hangUp();
    let reply = "";
    try {
      await tcp.write(create.request);
      // A reply is far smaller than a segment of the loopback interface.
      const count = await tcp.read(buffer) ?? 0;
      reply = decoder.decode(buffer.subarray(0, count));
    } catch {
      // The server closed the connection, or the client did at the deadline.
    }
    if (create.isOver) return "";
    create.hangUp = () => {};
    if (reply === "") tcp.close();
    else this.#idle.push(connection);
    return reply;
  }
}
