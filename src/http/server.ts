import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";
import { originOf } from "./origin.ts";

/** Interval between two attempts to listen again; open connections are served. */
const LISTEN_RETRY_MS = 1_000;

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  /** 0 for a free one. */
  readonly port: number;
  /** `undefined` for http. */
  readonly tls: Deno.TlsCertifiedKeyPem | undefined;
}

/** Why the service cannot listen. */
export class ListenError extends Error {
  /** @param isTransient whether it can pass by itself */
  constructor(message: string, readonly isTransient: boolean) {
    super(message);
  }
}

/** Converts an error of the runtime. */
function toListenError(error: unknown): ListenError {
  const message = errorMessage(error);
  // Only the errors of the system have a code. All but a denial can pass.
  const isOfSystem = error instanceof Error && "code" in error;
  const isDenied = error instanceof Deno.errors.PermissionDenied;
  // The look-up of a name can pass, too: at boot, the network may be late.
  const isLookup = message.startsWith("failed to lookup address");
  return new ListenError(message, isLookup || (isOfSystem && !isDenied));
}

/**
 * Listens for a moment.
 * @returns the address that the host stands for
 * @throws {ListenError}
 */
export function tryToListen({ host, port, tls }: ListenAddress): string {
  const address = { hostname: host, port };
  try {
    using listener = tls === undefined
      ? Deno.listen(address)
      : Deno.listenTls({ ...address, ...tls });
    return listener.addr.hostname;
  } catch (error) {
    throw toListenError(error);
  }
}

/** A server that is listening. */
export interface Server {
  /** The bound address as a URL. */
  readonly address: string;
  /**
   * Stops listening. Resolves when all requests are answered, or at once if the
   * runtime has already stopped listening.
   */
  shutdown(): Promise<void>;
}

/**
 * Listens, and again whenever the runtime stops listening, which happens when the
 * process is out of file descriptors.
 * @param handle answers a request; not called before {@link listen} has returned
 * @throws {ListenError}
 */
export function listen(
  { host, port, tls }: ListenAddress,
  log: Log,
  handle: (request: Request) => Promise<Response>,
): Server {
  const options = { hostname: host, port, ...tls, onListen() {} };
  const start = () => Deno.serve(options, handle);
  let server: Deno.HttpServer<Deno.NetAddr>;
  try {
    server = start();
  } catch (error) {
    throw toListenError(error);
  }
  const { hostname, port: bound } = server.addr;
  const address = originOf(hostname, bound, tls !== undefined);
  // If the port was 0, listen on the same one again.
  options.port = bound;
  let isStopping = false;

  async function keepListening(): Promise<void> {
    let isListening = true;
    while (!isStopping) {
      try {
        if (!isListening) {
          server = start();
          isListening = true;
          log.info("listener recovered", `listening on ${address} again`);
        }
        await server.finished;
        return;
      } catch (error) {
        if (isListening) {
          const lost = `the runtime stopped listening: ${errorMessage(error)}`;
          log.error("listener lost", lost);
        }
        isListening = false;
        await sleep(LISTEN_RETRY_MS);
      }
    }
  }
  keepListening();

  return {
    address,
    async shutdown() {
      isStopping = true;
      // It rejects if the runtime has stopped listening.
      await server.shutdown().catch(() => {});
    },
  };
}
