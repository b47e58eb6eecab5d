import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";
import { originOf } from "./origin.ts";

/** Interval between two attempts to listen again; open connections are served. */
const LISTEN_RETRY_MS = 1_000;

/** Where to listen. */
export interface Listening {
  readonly host: string;
  /** 0 for a free one. */
  readonly port: number;
  /** `undefined` for http. */
  readonly tls: Deno.TlsCertifiedKeyPem | undefined;
}

/** Answers requests. */
interface Handler {
  handle(request: Request): Promise<Response>;
}

/** A server that is listening. */
export interface Server {
  /** The bound address as a URL. */
  readonly address: string;
  /**
   * Sets the handler, which may depend on the address. Call it at once: no
   * request arrives before the caller waits.
   */
  serve(handler: Handler): void;
  /** Stops listening; resolves when all requests are answered. */
  shutdown(): Promise<void>;
}

/** Listens for a moment. @throws the error of the runtime if this is impossible */
export function tryToListen({ host, port, tls }: Listening): void {
  const address = { hostname: host, port };
  const listener = tls === undefined
    ? Deno.listen(address)
    : Deno.listenTls({ ...address, ...tls });
  listener.close();
}

/**
 * Listens, and again whenever the runtime stops listening, which happens when the
 * process is out of file descriptors.
 * @throws the error of the runtime if this is impossible
 */
export function listen({ host, port, tls }: Listening, log: Log): Server {
  let handler: Handler = {
    handle: () => Promise.reject(new Error("serve() was not called")),
  };
  const options = { hostname: host, port, ...tls, onListen() {} };
  const start = () => Deno.serve(options, (request) => handler.handle(request));
  let server = start();
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
    serve(requestHandler) {
      handler = requestHandler;
    },
    async shutdown() {
      isStopping = true;
      // It rejects if the runtime has stopped listening.
      await server.shutdown().catch(() => {});
    },
  };
}
