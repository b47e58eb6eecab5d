import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config/settings.ts";
import type { Log } from "../telemetry/log.ts";
import { errorMessage } from "../text.ts";
import { originOf } from "./origin.ts";

/** Interval between two attempts to listen again. */
const RETRY_MS = 1_000;

/** Where to listen. */
export type Listening = Pick<Config, "host" | "port" | "tls">;

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
export function listen(
  { host, port, tls }: Listening,
  handler: (request: Request) => Response | Promise<Response>,
  log: Log,
) {
  const options = { hostname: host, port, ...tls, onListen() {} };
  let server = Deno.serve(options, handler);
  const { hostname, port: bound } = server.addr;
  // A Unix socket has no port, although the type says so.
  if (bound === undefined) {
    throw new Error("unset DENO_SERVE_ADDRESS, which the runtime obeys");
  }
  const address = originOf(hostname, bound, tls !== undefined);
  // If the port was 0, listen on the same one again.
  options.port = bound;
  let isStopping = false;

  async function keepListening(): Promise<void> {
    let isListening = true;
    while (!isStopping) {
      try {
        if (!isListening) {
          server = Deno.serve(options, handler);
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
        await sleep(RETRY_MS);
      }
    }
  }
  keepListening();

  return {
    /** The bound address as a URL. */
    address,
    /** Stops listening; resolves when all requests are answered. */
    async shutdown(): Promise<void> {
      isStopping = true;
      // It rejects if the runtime has stopped listening.
      await server.shutdown().catch(() => {});
    },
  };
}
