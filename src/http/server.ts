import type { Clock } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import type { TlsFiles } from "../config/tls.ts";
import { LISTEN_AGAIN_MS_MAX } from "../limits.ts";
import { localOriginOf, originOf } from "./origin.ts";
import type { Log } from "../telemetry/log.ts";

/** Interval between two attempts to listen again. */
const RETRY_MS = 1_000;

const LISTEN_AGAIN_TRIES = LISTEN_AGAIN_MS_MAX / RETRY_MS;

/** Answers a request. The runtime answers 500 if it rejects. */
export type Handler = (request: Request) => Response | Promise<Response>;

/** Where to listen. */
export interface Listening extends Pick<Config, "host" | "port"> {
  readonly tls: Pick<TlsFiles, "pair"> | undefined;
}

type Options = Deno.ServeTcpOptions & Partial<Deno.TlsCertifiedKeyPem>;

/** A server of the runtime, as far as it is used. */
export type RuntimeServer = Pick<
  Deno.HttpServer<Deno.NetAddr>,
  "addr" | "finished" | "shutdown"
>;

/** Starts a server of the runtime: `Deno.serve`, except in tests. */
export type Serve = (options: Options & { handler: Handler }) => RuntimeServer;

/** What a server is made of besides its address. */
export interface ServerParts {
  readonly handler: Handler;
  readonly log: Log;
  readonly clock: Clock;
  readonly serve?: Serve;
}

/**
 * Listens for a moment.
 * @throws the error of the runtime if it cannot listen
 */
export function tryToListen({ host, port, tls }: Listening): void {
  const address = { hostname: host, port };
  const listener = tls === undefined
    ? Deno.listen(address)
    : Deno.listenTls({ ...address, ...tls.pair });
  listener.close();
}

/**
 * The HTTP server. It listens again when the runtime stops listening, which
 * happens when the process is out of file descriptors.
 */
export class HttpServer {
  readonly #options: Options;
  readonly #handler: Handler;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #serve: Serve;
  readonly #failed = Promise.withResolvers<never>();
  #server: RuntimeServer;
  #isClosing = false;

  /** The bound address as a URL. */
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
    { host, port, tls }: Listening,
    { handler, log, clock, serve = Deno.serve }: ServerParts,
  ) {
    this.#options = { hostname: host, port, ...tls?.pair };
    this.#handler = handler;
    this.#log = log;
    this.#clock = clock;
    this.#serve = serve;
    this.#server = this.#listen();
    const { addr } = this.#server;
    // If the port was 0, listen on the same one again.
    this.#options.port = addr.port;
    this.address = originOf(addr.hostname, addr.port, tls !== undefined);
    this.origin = localOriginOf(addr.hostname, addr.port, tls !== undefined);
    this.#keepListening();
  }

  /** Stops listening; resolves when all requests are answered. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    // It rejects if the runtime has stopped listening.
    await this.#server.shutdown().catch(() => {});
  }

  #listen(): RuntimeServer {
    return this.#serve({
      ...this.#options,
      handler: this.#handler,
      onListen: () => {},
    });
  }

  /** Listens again whenever the runtime stops listening. */
  async #keepListening(): Promise<void> {
    for (;;) {
      try {
        return await this.#server.finished;
      } catch {
        this.#log.error("listener lost", "the runtime stopped listening");
      }
      if (!await this.#listenAgain()) return;
      this.#log.info(
        "listener recovered",
        `listening on ${this.address} again`,
      );
    }
  }

  /** Returns whether it listens again; gives up after some time. */
  async #listenAgain(): Promise<boolean> {
    let problem: unknown;
    for (let tries = 0; tries < LISTEN_AGAIN_TRIES; tries++) {
      await this.#clock.sleep(RETRY_MS);
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
