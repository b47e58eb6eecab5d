import { setTimeout as sleep } from "node:timers/promises";
import { QUIET_MS } from "../limits.ts";
import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";

/** Time for running creates to get their replies before all connections are closed. */
const CLOSE_AFTER_MS = 1_000;

/** Pause before each attempt to listen again, in which connections end. */
const LISTEN_RETRY_MS = 100;

/** Attempts to listen again, for 10 s, before only a restart can help. */
const ATTEMPTS_MAX = 100;

/** What is used of a server of the runtime. */
export interface RuntimeServer {
  readonly addr: Deno.NetAddr;
  /** Rejects when the runtime stops listening; resolves after a shutdown. */
  readonly finished: Promise<void>;
  shutdown(): Promise<void>;
}

/** What is needed to keep listening. */
interface KeepListeningOptions {
  /**
   * Returns a server that listens, and whose connections end when the signal is
   * aborted. The signal must not be aborted after a shutdown.
   */
  readonly start: (signal: AbortSignal) => RuntimeServer;
  readonly log: Log;
  readonly pause?: (ms: number) => Promise<void>;
}

/** A server that is replaced when it is lost. */
export interface KeptServer {
  readonly addr: Deno.NetAddr;
  /**
   * Resolves when it no longer listens: after a shutdown, or when the end of all
   * connections has freed no descriptors. Over https this happens if all are in a
   * handshake that is not completed: only the client, or a restart, closes these.
   */
  readonly ended: Promise<void>;
  /** Stops listening. Resolves when all requests have their replies. */
  shutdown(): Promise<void>;
}

/**
 * Starts a server, and another one whenever the runtime stops listening. It does so
 * without file descriptors. Any client can cause this with connections that send
 * nothing, a part of a request or no body, because the runtime has no time limit for
 * them. So all connections of a lost server are closed.
 * @throws the error of the first start
 */
export function keepListening(
  { start, log, pause = sleep }: KeepListeningOptions,
): KeptServer {
  let connections = new AbortController();
  let server = start(connections.signal);
  let isStopping = false;

  /** Replaces a lost server, and returns whether that was possible. */
  async function replaceServer(): Promise<boolean> {
    await pause(CLOSE_AFTER_MS);
    if (isStopping) return false;
    connections.abort();
    // Not awaited: a handler may run after its connection has ended.
    shutDown(server);
    for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts++) {
      await pause(LISTEN_RETRY_MS);
      if (isStopping) return false;
      try {
        connections = new AbortController();
        server = start(connections.signal);
        return true;
      } catch {
        // Too few descriptors are free.
      }
    }
    return false;
  }

  /** Returns whether the new server is lost within a short time, too. */
  async function isLostSoon(): Promise<boolean> {
    const loss = await Promise.race([lossOf(server), pause(QUIET_MS)]);
    return loss !== undefined;
  }

  async function keep(): Promise<void> {
    for (;;) {
      const loss = await lossOf(server);
      if (loss === undefined) return;
      log.error(
        "listener lost",
        `the runtime stopped listening: ${loss}: closing its connections`,
      );
      do {
        if (!await replaceServer()) return;
      } while (await isLostSoon());
      if (!isStopping) log.info("listener recovered", "listening again");
    }
  }

  return {
    addr: server.addr,
    ended: keep(),
    async shutdown() {
      isStopping = true;
      await shutDown(server);
    },
  };
}

/** Resolves with why the runtime stops listening; with `undefined` after a shutdown. */
function lossOf({ finished }: RuntimeServer): Promise<string | undefined> {
  return finished.then(() => undefined, errorMessage);
}

/** Shuts a server down. One that is lost rejects, and has nothing to shut down. */
function shutDown(server: RuntimeServer): Promise<void> {
  return server.shutdown().catch(() => {});
}
