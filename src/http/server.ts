import type { Config } from "../config.ts";
import { LISTEN_AGAIN_MS_MAX } from "../limits.ts";
import { errorMessage } from "../messages.ts";
import type { Log } from "../telemetry/log.ts";

/** Interval between two checks that it still listens. */
const CHECK_MS = 1_000;

/** Messages of certificate and key errors that are not InvalidData. */
const CERTIFICATE_PROBLEM = /certificate|'cert'|private key|KeyMismatch/;

/** Answers every request. Never rejects. */
export type Handler = (request: Request) => Promise<Response>;

/** Why the server cannot listen. */
export type ListenProblem =
  | "address in use"
  | "address not available"
  | "permission denied"
  | "certificate"
  | "other";

/** The server cannot listen. */
export class ListenError extends Error {
  override readonly name = "ListenError";
  readonly problem: ListenProblem;

  constructor(problem: ListenProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/**
 * The HTTP server. It listens again when the runtime stops listening, which
 * happens when the process is out of file descriptors.
 */
export class HttpServer {
  readonly #options: Deno.ServeTcpOptions & Partial<Deno.TlsCertifiedKeyPem>;
  readonly #handler: Handler;
  readonly #log: Log;
  readonly #failed = Promise.withResolvers<never>();
  #server: Deno.HttpServer;
  #checking: ReturnType<typeof setInterval> | undefined;
  /** When it was found not to listen; `undefined` while it listens. */
  #lostMs: number | undefined;
  #isClosing = false;

  /** Starts to listen. @throws {ListenError} */
  constructor({ host, port, tls }: Config, handler: Handler, log: Log) {
    this.#handler = handler;
    this.#log = log;
    this.#options = { hostname: host, port, ...tls };
    try {
      this.#server = this.#listen();
    } catch (error) {
      throw toListenError(error, tls !== undefined);
    }
    // Listen on the same address again, even if the port was 0 or
    // DENO_SERVE_ADDRESS chose it, which applies to the first call only.
    const { addr } = this.#server;
    if (isNetworkAddress(addr)) {
      this.#options.hostname = addr.hostname;
      this.#options.port = addr.port;
      this.#checking = setInterval(() => this.#check(addr), CHECK_MS);
    }
  }

  /** The bound address as a URL. DENO_SERVE_ADDRESS can override it. */
  get address(): string {
    const addr: Deno.Addr = this.#server.addr;
    return isNetworkAddress(addr)
      ? toUrl(addr.hostname, addr.port, this.#isTls)
      : JSON.stringify(addr);
  }

  /** The origin of a URL by which this machine reaches the server. */
  get origin(): string {
    const addr: Deno.Addr = this.#server.addr;
    return isNetworkAddress(addr)
      ? originOf(addr.hostname, addr.port, this.#isTls)
      : "http://localhost";
  }

  /** Rejects with a {@link ListenError} if it gives up listening. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  get #isTls(): boolean {
    return this.#options.cert !== undefined;
  }

  /** Stops listening; resolves when all requests are answered. */
  async shutdown(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#checking);
    await this.#server.shutdown();
  }

  #listen(): Deno.HttpServer {
    const server = Deno.serve({
      ...this.#options,
      handler: this.#handler,
      onListen: () => {},
    });
    // It does not replace #check(): Deno 2.6 rejects it only when the last
    // connection has ended.
    server.finished.catch(() => {});
    return server;
  }

  /** Connects to its own port, and listens again if the connection is refused. */
  async #check(addr: Deno.NetAddr): Promise<void> {
    const isRefused = await refusesConnections(addr);
    if (this.#isClosing) return;
    if (isRefused) {
      this.#listenAgain();
    } else if (this.#lostMs !== undefined) {
      this.#lostMs = undefined;
      const message = `listening on ${this.address} again`;
      this.#log.info("listener recovered", message);
    }
  }

  #listenAgain(): void {
    const nowMs = performance.now();
    if (this.#lostMs === undefined) {
      this.#lostMs = nowMs;
      this.#log.error("listener lost", "the runtime stopped listening");
    }
    try {
      this.#server = this.#listen();
    } catch (error) {
      if (nowMs - this.#lostMs < LISTEN_AGAIN_MS_MAX) return;
      this.#failed.reject(toListenError(error, this.#isTls));
    }
  }
}

/** Returns the origin of a URL by which this machine reaches a server. */
export function originOf(host: string, port: number, isTls: boolean): string {
  const isAnyAddress = host === "0.0.0.0" || host === "::";
  return toUrl(isAnyAddress ? "localhost" : host, port, isTls);
}

function toUrl(host: string, port: number, isTls: boolean): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return `${isTls ? "https" : "http"}://${name}:${port}`;
}

/** Does not test `transport`, which differs for TLS before Deno 2.9. */
function isNetworkAddress(addr: Deno.Addr): addr is Deno.NetAddr {
  return "port" in addr;
}

/**
 * Returns whether nothing listens at an address. Without a file descriptor to
 * connect with it returns false: there would be none to listen with either.
 */
async function refusesConnections(
  { hostname, port }: Deno.NetAddr,
): Promise<boolean> {
  try {
    (await Deno.connect({ hostname, port })).close();
    return false;
  } catch (error) {
    return error instanceof Deno.errors.ConnectionRefused;
  }
}

function toListenError(error: unknown, isTls: boolean): ListenError {
  const message = errorMessage(error);
  if (error instanceof Deno.errors.AddrInUse) {
    return new ListenError("address in use", "another program listens there");
  }
  if (error instanceof Deno.errors.AddrNotAvailable) {
    return new ListenError(
      "address not available",
      "this machine does not have the address",
    );
  }
  if (message.includes("failed to lookup address")) {
    return new ListenError("address not available", "unknown host name");
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return new ListenError("permission denied", "permission denied");
  }
  const isInvalid = error instanceof Deno.errors.InvalidData;
  if (!isTls || !(isInvalid || CERTIFICATE_PROBLEM.test(message))) {
    return new ListenError("other", message);
  }
  return new ListenError(
    "certificate",
    message.includes("KeyMismatch")
      ? "the key does not belong to the certificate"
      : message,
  );
}
