/**
 * An open-loop load: creates arrive at a fixed rate, whether or not earlier
 * ones were answered, as those of many independent clients do. Each has a
 * deadline, after which its client hangs up, and up to three retries.
 */
import { TOKEN } from "./servers.ts";

/** Time from the arrival of a create until its client gives up. */
export const DEADLINE_MS = 1_000;

const RETRIES_MAX = 3;

/** Delay before a retry without `Retry-After`. */
const RETRY_MS = 100;

/** Interval at which due arrivals start, and late connections are closed. */
const TICK_MS = 5;

/** More than a reply to a create has. */
const REPLY_BYTES_MAX = 4096;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The creates that arrived in one second, by outcome. */
export interface Second {
  /** Answered 200 by the deadline. */
  useful: number;
  /** Not answered 200 by the deadline. */
  late: number;
  /** Replies of 503. */
  refused: number;
}

/** A connection to the server. */
interface Connection {
  readonly tcp: Deno.TcpConn;
  readonly buffer: Uint8Array;
  deadlineMs: number;
}

/** Many clients of one server. */
export class OpenLoop {
  readonly #port: number;
  readonly #idle: Connection[] = [];
  readonly #busy = new Set<Connection>();
  #id: number;
  /** How late arrivals started, at most: the load of the generator itself. */
  lagMsMax = 0;

  /** @param firstId ids count from here */
  constructor(url: string, firstId: number) {
    this.#port = Number(new URL(url).port);
    this.#id = firstId;
  }

  /** Sends creates at a rate for some seconds; returns the outcome by second. */
  async run(perSecond: number, seconds: number): Promise<Second[]> {
    const outcomes = Array.from(
      { length: seconds },
      (): Second => ({ useful: 0, late: 0, refused: 0 }),
    );
    const creates: Promise<void>[] = [];
    const startMs = performance.now();
    const closing = setInterval(() => this.#closeLate(), TICK_MS);
    let started = 0;
    while (started < perSecond * seconds) {
      const elapsedMs = performance.now() - startMs;
      const dueMs = started * 1000 / perSecond;
      this.lagMsMax = Math.max(this.lagMsMax, elapsedMs - dueMs - TICK_MS);
      const due = Math.min(perSecond * seconds, elapsedMs * perSecond / 1000);
      for (; started < due; started++) {
        const outcome = outcomes[Math.floor(started / perSecond)];
        if (outcome !== undefined) creates.push(this.#create(outcome));
      }
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    }
    await Promise.all(creates);
    clearInterval(closing);
    return outcomes;
  }

  /** Closes all connections. */
  close(): void {
    for (const { tcp } of this.#idle.splice(0)) tcp.close();
  }

  /** One client: a create until it is answered 200, or until its deadline. */
  async #create(outcome: Second): Promise<void> {
    const deadlineMs = performance.now() + DEADLINE_MS;
    const request = this.#request(this.#id++);
    for (let attempt = 0; attempt <= RETRIES_MAX; attempt++) {
      const { status, retryAfterMs } = await this.#send(request, deadlineMs);
      if (status === 200) {
        outcome.useful++;
        return;
      }
      if (status === 503) outcome.refused++;
      if (performance.now() + retryAfterMs >= deadlineMs) break;
      await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
    }
    outcome.late++;
  }

  #request(id: number): Uint8Array {
    const body = `{"id":${id},"name":"Monstera deliciosa","tag":"climber"}`;
    return encoder.encode(
      `POST /plants HTTP/1.1\r\nHost: localhost\r\n` +
        `Authorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    );
  }

  /** Sends a request; the status is 0 without a reply by the deadline. */
  async #send(
    request: Uint8Array,
    deadlineMs: number,
  ): Promise<{ status: number; retryAfterMs: number }> {
    let connection: Connection | undefined;
    try {
      connection = this.#idle.pop() ?? await this.#connect();
      connection.deadlineMs = deadlineMs;
      this.#busy.add(connection);
      const { tcp, buffer } = connection;
      await tcp.write(request);
      // A reply is far smaller than a segment of the loopback interface.
      const count = await tcp.read(buffer) ?? 0;
      if (!this.#busy.delete(connection) || count === 0) {
        throw new Error("closed");
      }
      this.#idle.push(connection);
      const reply = buffer.subarray(0, count);
      const status = Number(decoder.decode(reply.subarray(9, 12)));
      if (status === 200) return { status, retryAfterMs: 0 };
      const seconds = /\r\nretry-after: (\d+)\r/i.exec(decoder.decode(reply));
      return {
        status,
        retryAfterMs: seconds === null ? RETRY_MS : 1000 * Number(seconds[1]),
      };
    } catch {
      // The deadline closed the connection, or the server did.
      if (connection !== undefined && this.#busy.delete(connection)) {
        connection.tcp.close();
      }
      return { status: 0, retryAfterMs: RETRY_MS };
    }
  }

  async #connect(): Promise<Connection> {
    const tcp = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    const buffer = new Uint8Array(REPLY_BYTES_MAX);
    return { tcp, buffer, deadlineMs: 0 };
  }

  #closeLate(): void {
    const nowMs = performance.now();
    for (const connection of this.#busy) {
      if (connection.deadlineMs > nowMs) continue;
      this.#busy.delete(connection);
      connection.tcp.close();
    }
  }
}
