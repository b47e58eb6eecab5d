import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config.ts";
import { LISTEN_AGAIN_MS_MAX } from "../limits.ts";
import { localOriginOf, originOf } from "../origin.ts";
import type { Log } from "../telemetry/log.ts";

/** Interval between two attempts to listen again. */
const RETRY_MS = 1_000;

const LISTEN_AGAIN_TRIES = LISTEN_AGAIN_MS_MAX / RETRY_MS;

/** Answers every request. Never rejects. */
export type Handler = (request: Request) => Promise<Response>;

/**
 * The HTTP server. It listens again when the runtime stops listening, which
 * happens when the process is out of file descriptors.
 */
export class HttpServer {
  readonly #options: Deno.ServeTcpOptions & Partial<Deno.TlsCertifiedKeyPem>;
  readonly #handler: Handler;
  readonly #log: Log;
  readonly #retryMs: number;
  readonly #failed = Promise.withResolvers<never>();
  #server: Deno.HttpServer<Deno.Addr>;
  #isClosing = false;

  /** The bound address as a URL. DENO_SERVE_ADDRESS can override it. */
  readonly address: string;
  /** The origin of a URL by which this machine reaches the server. */
  readonly origin: string;
  /** Rejects with the error of the runtime if it gives up listening. */
  readonly failed: Promise<never> = this.#failed.promise;

  /**
   * Starts to listen.
   * @throws the error of the runtime if it cannot
   */
  constructor(
    { host, port, tls }: Pick<Config, "host" | "port" | "tls">,
    handler: Handler,
    log: Log,
    { retryMs = RETRY_MS } = {},
  ) {
    this.#options = { hostname: host, port, ...tls };
    this.#handler = handler;
    this.#log = log;
    this.#retryMs = retryMs;
    this.#server = this.#listen();
    const { addr } = this.#server;
    if (isNetworkAddress(addr)) {
      const { hostname, port } = addr;
      // Listen on the same address again, even if the port was 0 or
      // DENO_SERVE_ADDRESS chose it, which applies to the first call only.
      this.#options = { hostname, port, ...tls };
      this.address = originOf(hostname, port, tls !== undefined);
      this.origin = localOriginOf(hostname, port, tls !== undefined);
    } else {
      this.address = JSON.stringify(addr);
      this.origin = "http://localhost";
    }
    this.#keepListening();
  }

  /** Stops listening; resolves when all requests are answered. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    // It rejects if the runtime has stopped listening.
    await this.#server.shutdown().catch(() => {});
  }

  #listen(): Deno.HttpServer<Deno.Addr> {
    return Deno.serve({
      ...this.#options,
      handler: this.#handler,
      onListen: () => {},
    });
  }

  /** Listens again whenever the runtime stops listening. */
  async #keepListening(): Promise<void> {
    let isLost = false;
    while (await hasStopped(this.#server)) {
      if (this.#isClosing) return;
      if (!isLost) {
        this.#log.error("listener lost", "the runtime stopped listening");
      }
      if (!await this.#listenAgain()) return;
      // Without a free descriptor, the next connection stops it again.
      isLost = await Promise.race([
        hasStopped(this.#server),
        sleep(this.#retryMs, false),
      ]);
      if (isLost || this.#isClosing) continue;
      this.#log.info(
        "listener recovered",
        `listening on ${this.address} again`,
      );
    }
  }

  /** Returns whether it listens again; otherwise it closes or has given up. */
  async #listenAgain(): Promise<boolean> {
    let problem: unknown = new Error("the runtime stopped listening");
    // Only the runtime knows how to listen on a Unix socket.
    const tries = isNetworkAddress(this.#server.addr) ? LISTEN_AGAIN_TRIES : 0;
    for (let i = 0; i < tries; i++) {
      await sleep(this.#retryMs);
      if (this.#isClosing) return false;
      try {
        this.#server = this.#listen();
        return true;
      } catch (error) {
        problem = error;
      }
    }
    this.#failed.reject(problem);
    return false;
  }
}

/** Waits until a server ends; returns whether the runtime stopped it. */
function hasStopped(
  { finished }: Deno.HttpServer<Deno.Addr>,
): Promise<boolean> {
  return finished.then(() => false, () => true);
}

/** Does not test `transport`, which differs for TLS before Deno 2.9. */
function isNetworkAddress(addr: Deno.Addr): addr is Deno.NetAddr {
  return "port" in addr;
}
