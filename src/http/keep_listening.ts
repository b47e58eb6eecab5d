import { setTimeout as sleep } from "node:timers/promises";
import { QUIET_MS } from "../limits.ts";
import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";

/** Maximum time for the running creates of a lost server to get their replies. */
const REPLIES_MS_MAX = 1_000;

/** Interval of looking for these replies, and time for the last one to leave. */
const POLL_MS = 20;

/** Pause before listening again, if the last attempt failed or did not last. */
const LISTEN_RETRY_MS = 1_000;

/** Attempts to listen again that fail before only a restart can help. */
const STUCK_TRIES = 10;

/** Descriptors that must be free before a server is started. */
const DESCRIPTORS_MIN = 8;

/** Answers a request. Never rejects. */
export type Handle = (request: Request) => Promise<Response>;

/** What answers the requests. */
export interface Answering {
  readonly handle: Handle;
  /** Returns whether a create is running. */
  readonly isBusy: () => boolean;
}

/** How to answer requests and to listen. */
interface KeepOptions<Server> extends Answering {
  /**
   * Returns a server that listens, and whose connections end when the signal is
   * aborted; throws if it cannot listen.
   */
  readonly start: (handle: Handle, signal: AbortSignal) => Server;
}

/** What is used of a server of the runtime. */
export interface RuntimeServer {
  /** Rejects if the runtime stops listening; resolves after {@link shutdown}. */
  readonly finished: Promise<void>;
  /** Stops listening. Resolves when all requests have their replies. */
  shutdown(): Promise<void>;
}

/** A server that is kept listening. */
export interface KeptServer<Server> {
  /** The first server. The later ones have its address. */
  readonly first: Server;
  /**
   * Resolves when closing all connections has freed no file descriptors. Over https
   * this happens if all are in a handshake that is not completed: only the end of the
   * process, or of the client, closes these.
   */
  readonly stuck: Promise<void>;
  /** Stops listening. Resolves when all requests have their replies. */
  readonly shutdown: () => Promise<void>;
}

/**
 * Starts a server, and another one whenever the runtime stops listening. It does so
 * without file descriptors. Any client can cause this with connections that send
 * nothing, a part of a request or no body, because the runtime has no time limit for
 * them. So all connections of a server that is lost are closed. A shutdown would not
 * close those whose body never arrives.
 * @throws the error of the first start
 */
export function keepListening<Server extends RuntimeServer>(
  log: Log,
  { handle, isBusy, start }: KeepOptions<Server>,
): KeptServer<Server> {
  /** Whether a reply closes its connection, because the server is lost. */
  let isClosing = false;
  /** Whether the log has a loss, but not the recovery. */
  let isLost = false;
  let recovery: ReturnType<typeof setTimeout> | undefined;
  let isStopping = false;
  const stuck = Promise.withResolvers<void>();
  let connections = new AbortController();
  const first = start(respond, connections.signal);
  let server = first;

  // It adds nothing to the time of an ordinary request.
  function respond(request: Request): Promise<Response> {
    return isClosing ? respondAndClose(request) : handle(request);
  }

  async function respondAndClose(request: Request): Promise<Response> {
    const response = await handle(request);
    response.headers.set("Connection", "close");
    return response;
  }

  /** Closes the connections of the lost server, after its running creates. */
  async function closeConnections(): Promise<void> {
    const untilMs = performance.now() + REPLIES_MS_MAX;
    isClosing = true;
    while (isBusy() && performance.now() < untilMs) await sleep(POLL_MS);
    await sleep(POLL_MS);
    isClosing = false;
    // After a shutdown, the runtime cannot abort it.
    if (isStopping) return;
    connections.abort();
    // Not awaited: a handler may run after its connection has ended.
    server.shutdown();
  }

  /** Starts a server when descriptors are free. */
  async function startAgain(): Promise<void> {
    for (let tries = 1; !isStopping; tries++) {
      try {
        requireDescriptors();
        connections = new AbortController();
        server = start(respond, connections.signal);
        recovery = setTimeout(logRecovery, QUIET_MS);
        return;
      } catch {
        if (tries === STUCK_TRIES) stuck.resolve();
        await sleep(LISTEN_RETRY_MS);
      }
    }
  }

  function logLoss(error: unknown): void {
    isLost = true;
    log.error(
      "listener lost",
      `the runtime stopped listening: ${errorMessage(error)}: ` +
        "closing its connections",
    );
  }

  function logRecovery(): void {
    isLost = false;
    log.info("listener recovered", "listening again");
  }

  async function run(): Promise<void> {
    while (!isStopping) {
      try {
        await server.finished;
      } catch (error) {
        clearTimeout(recovery);
        const pauseMs = isLost ? LISTEN_RETRY_MS : 0;
        if (!isLost) logLoss(error);
        await closeConnections();
        await sleep(pauseMs);
        await startAgain();
      }
    }
  }
  run();

  return {
    first,
    stuck: stuck.promise,
    async shutdown() {
      isStopping = true;
      clearTimeout(recovery);
      // It rejects if the runtime has stopped listening.
      await server.shutdown().catch(() => {});
    },
  };
}

/** @throws the error of the runtime if the process has few descriptors left */
function requireDescriptors(): void {
  using opened = new DisposableStack();
  for (let i = 0; i < DESCRIPTORS_MIN; i++) {
    opened.use(Deno.listen({ hostname: "127.0.0.1", port: 0 }));
  }
}
