import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "./config.ts";
import { messageOf } from "./faults.ts";
import { LISTEN_AGAIN_MS_MAX } from "./limits.ts";
import type { Log } from "./log.ts";
import { EXIT_CONFIGURATION, EXIT_FAILURE, StartError } from "./start_error.ts";

/** How often to look whether the listener still listens. */
const LISTEN_LOOK_MS = 1_000;

/** How long to rest between two tries to listen again. */
const LISTEN_AGAIN_MS = 100;

/** Answers every request, faults of the program included. */
export type Handler = (request: Request) => Promise<Response>;

/**
 * Listens for HTTP, and again where the runtime gave up listening: it does so
 * when it is out of file descriptors.
 */
export class Listener {
  readonly #options: Deno.ServeTcpOptions & Partial<Deno.TlsCertifiedKeyPem>;
  readonly #handler: Handler;
  readonly #log: Log;
  #server: Deno.HttpServer;
  #isClosing = false;

  /** @throws {StartError} where the address cannot be listened on */
  constructor({ host, port, tls }: Config, handler: Handler, log: Log) {
    this.#handler = handler;
    this.#log = log;
    this.#options = { hostname: host, port, ...tls };
    try {
      this.#server = this.#listen();
    } catch (error) {
      if (tls !== undefined && !isOfAddress(error)) {
        throw new StartError(`--tls-cert, --tls-key: ${tlsFault(error)}`);
      }
      throw new StartError(
        `cannot listen on ${host} port ${port}: ${addressFault(error)}`,
        error instanceof Deno.errors.PermissionDenied
          ? EXIT_CONFIGURATION
          : EXIT_FAILURE,
      );
    }
    const { addr } = this.#server;
    if (!isOfNetwork(addr)) return;
    // The same again, should the port have been a free one, or the address one
    // of DENO_SERVE_ADDRESS, which counts for the first time only.
    this.#options.hostname = addr.hostname;
    this.#options.port = addr.port;
    this.#watch(addr);
  }

  /** What was bound, which DENO_SERVE_ADDRESS can choose too. */
  get address(): string {
    const addr: Deno.Addr = this.#server.addr;
    return isOfNetwork(addr)
      ? urlOf(addr.hostname, addr.port, this.#isTls)
      : JSON.stringify(addr);
  }

  /** The origin of a URL under which this machine reaches the listener. */
  get origin(): string {
    const addr: Deno.Addr = this.#server.addr;
    return isOfNetwork(addr)
      ? originOf(addr.hostname, addr.port, this.#isTls)
      : "http://localhost";
  }

  get #isTls(): boolean {
    return this.#options.cert !== undefined;
  }

  /** Takes no more connections; resolves when all requests are answered. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    await this.#server.shutdown();
  }

  #listen(): Deno.HttpServer {
    const server = Deno.serve({
      ...this.#options,
      handler: this.#handler,
      onListen: () => {},
    });
    // What is the matter then shows when nobody listens.
    server.finished.catch(() => {});
    return server;
  }

  /** Knocks on the own door, and listens again where nobody opens. */
  async #watch(addr: Deno.NetAddr): Promise<void> {
    let isLost = false;
    while (!this.#isClosing) {
      await sleep(LISTEN_LOOK_MS);
      const isDeaf = await isRefused(addr);
      if (this.#isClosing) return;
      if (isDeaf && !isLost) {
        this.#log.error("listener lost", "the runtime gave up listening");
        isLost = true;
      } else if (!isDeaf && isLost) {
        this.#log.info("listener back", `listening on ${this.address} again`);
        isLost = false;
      }
      if (isDeaf) await this.#listenAgain();
    }
  }

  async #listenAgain(): Promise<void> {
    const untilMs = performance.now() + LISTEN_AGAIN_MS_MAX;
    while (!this.#isClosing) {
      try {
        this.#server = this.#listen();
        return;
      } catch (error) {
        if (performance.now() > untilMs) {
          this.#log.error(
            "stopped",
            `gave up listening: ${messageOf(error)}`,
          );
          Deno.exit(EXIT_FAILURE);
        }
        await sleep(LISTEN_AGAIN_MS);
      }
    }
  }
}

/** The origin of a URL under which this machine reaches a listener. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const isAny = host === "0.0.0.0" || host === "::";
  return urlOf(isAny ? "localhost" : host, port, isTls);
}

function urlOf(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Not by `transport`, which says something else of TLS before Deno 2.9. */
function isOfNetwork(addr: Deno.Addr): addr is Deno.NetAddr {
  return "port" in addr;
}

/**
 * Whether nobody listens at an address. Without a file descriptor for the
 * question the answer is no: there would be none to listen with, either.
 */
async function isRefused({ hostname, port }: Deno.NetAddr): Promise<boolean> {
  try {
    (await Deno.connect({ hostname, port })).close();
    return false;
  } catch (error) {
    return error instanceof Deno.errors.ConnectionRefused;
  }
}

/** Whether the address is at fault, and not what is served there. */
function isOfAddress(error: unknown): boolean {
  return error instanceof Deno.errors.AddrInUse ||
    error instanceof Deno.errors.AddrNotAvailable ||
    error instanceof Deno.errors.PermissionDenied;
}

function addressFault(error: unknown): string {
  if (error instanceof Deno.errors.AddrInUse) {
    return "another program listens there: stop it or choose another --port";
  }
  if (error instanceof Deno.errors.AddrNotAvailable) {
    return "this machine has no such address: choose another --host";
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return "this user may not: choose a --port from 1024 on";
  }
  return messageOf(error);
}

function tlsFault(error: unknown): string {
  const message = messageOf(error);
  return message.includes("KeyMismatch")
    ? "the key is not the one of the certificate"
    : message;
}
