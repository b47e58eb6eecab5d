import type { Config } from "./config.ts";
import { LISTEN_AGAIN_MS_MAX } from "./limits.ts";
import type { Log } from "./log.ts";
import { EXIT_FAILURE, StartError } from "./start_error.ts";

/** How long to rest between two tries to listen again. */
const LISTEN_AGAIN_MS = 100;

/** How long to listen without a loss before it is said. */
const LISTEN_STEADY_MS = 1_000;

/** How requests are answered, and faults of the program in doing so. */
export interface Answers {
  readonly answer: (request: Request) => Response | Promise<Response>;
  readonly answerFault: (error: unknown) => Response;
}

/**
 * Listens for HTTP, and again where the runtime gave up listening: it does so
 * when it is out of file descriptors.
 */
export class Listener {
  readonly #options: Deno.ServeTcpOptions & Partial<Deno.TlsCertifiedKeyPem>;
  readonly #answers: Answers;
  readonly #log: Log;
  #server: Deno.HttpServer;
  #isClosing = false;
  /** Whether it was said that the listener is lost, and not yet that it is back. */
  #isLost = false;
  #steady: ReturnType<typeof setTimeout> | undefined;

  /** @throws {StartError} where the address cannot be listened on */
  constructor({ host, port, tls }: Config, answers: Answers, log: Log) {
    this.#answers = answers;
    this.#log = log;
    this.#options = { hostname: host, port, ...tls };
    try {
      this.#server = this.#listen();
    } catch (error) {
      if (tls !== undefined && !isOfAddress(error)) {
        throw new StartError(`--tls-cert, --tls-key: ${reason(error)}`);
      }
      throw new StartError(
        `cannot listen on ${host} port ${port}: ${reason(error)}`,
        EXIT_FAILURE,
      );
    }
    // The same port again, should it have been a free one.
    const { addr } = this.#server;
    if (addr.transport === "tcp") this.#options.port = addr.port;
  }

  /** What was bound, which DENO_SERVE_ADDRESS can choose too. */
  get address(): string {
    const addr: Deno.Addr = this.#server.addr;
    return addr.transport === "tcp"
      ? this.#url(addr.hostname, addr.port)
      : JSON.stringify(addr);
  }

  /** The origin of a URL under which this machine reaches the listener. */
  get origin(): string {
    const addr: Deno.Addr = this.#server.addr;
    if (addr.transport !== "tcp") return "http://localhost";
    const isAny = addr.hostname === "0.0.0.0" || addr.hostname === "::";
    return this.#url(isAny ? "localhost" : addr.hostname, addr.port);
  }

  #url(hostname: string, port: number): string {
    const scheme = this.#options.cert === undefined ? "http" : "https";
    const host = hostname.includes(":") ? `[${hostname}]` : hostname;
    return `${scheme}://${host}:${port}`;
  }

  /** Takes no more connections; resolves when all requests are answered. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    await this.#server.shutdown();
  }

  #listen(): Deno.HttpServer {
    const server = Deno.serve({
      ...this.#options,
      handler: this.#answers.answer,
      onError: this.#answers.answerFault,
      onListen: () => {},
    });
    server.finished.catch((error) => this.#listenAgain(error));
    return server;
  }

  async #listenAgain(error: unknown): Promise<void> {
    if (this.#isClosing) return;
    clearTimeout(this.#steady);
    if (!this.#isLost) {
      this.#log.error("listener lost", `cannot listen: ${reason(error)}`);
    }
    this.#isLost = true;
    const untilMs = performance.now() + LISTEN_AGAIN_MS_MAX;
    while (!this.#isClosing) {
      await new Promise((resolve) => setTimeout(resolve, LISTEN_AGAIN_MS));
      try {
        this.#server = this.#listen();
        this.#steady = setTimeout(() => this.#isBack(), LISTEN_STEADY_MS);
        return;
      } catch (error) {
        if (performance.now() < untilMs) continue;
        this.#log.error("stopped", `gave up listening: ${reason(error)}`);
        Deno.exit(EXIT_FAILURE);
      }
    }
  }

  #isBack(): void {
    this.#isLost = false;
    this.#log.info("listener back", `listening again on ${this.address}`);
  }
}

/** Whether the address is at fault, and not what is served there. */
function isOfAddress(error: unknown): boolean {
  return error instanceof Deno.errors.AddrInUse ||
    error instanceof Deno.errors.AddrNotAvailable ||
    error instanceof Deno.errors.PermissionDenied;
}

function reason(error: unknown): string {
  if (error instanceof Deno.errors.AddrInUse) {
    return "another program listens there: stop it or choose another --port";
  }
  return error instanceof Error ? error.message : String(error);
}
