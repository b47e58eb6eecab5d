import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config/settings.ts";
import { errorMessage } from "../messages.ts";
import { exitStatusOf, OperatorError } from "../operator_error.ts";
import type { Log } from "../telemetry/log.ts";
import { originOf } from "./origin.ts";

/** Interval between two attempts to listen again. */
const RETRY_MS = 1_000;

/** Answers a request. The runtime answers 500 if it rejects. */
export type Handler = (request: Request) => Response | Promise<Response>;

/** Where to listen. */
export type Listening = Pick<Config, "host" | "port" | "tls">;

/**
 * Listens for a moment.
 * @throws {OperatorError} if this is impossible
 */
export function tryToListen(listening: Listening, port = listening.port): void {
  const { host, tls } = listening;
  const address = { hostname: host, port };
  const listener = orListenFailure(
    listening,
    () =>
      tls === undefined
        ? Deno.listen(address)
        : Deno.listenTls({ ...address, ...tls }),
  );
  listener.close();
}

/** Calls a function. @throws {OperatorError} if the runtime cannot listen */
function orListenFailure<Result>(
  { host, port, tls }: Listening,
  listen: () => Result,
): Result {
  try {
    return listen();
  } catch (error) {
    // The errors of the system have a code, and all but this one can pass.
    const isTransient = error instanceof Error && "code" in error &&
      !(error instanceof Deno.errors.PermissionDenied);
    const settings = tls ? "HOST, PORT, TLS_CERT and TLS_KEY" : "HOST and PORT";
    throw new OperatorError(
      `cannot listen on ${host} port ${port}: ${errorMessage(error)}: ` +
        `check ${settings}`,
      exitStatusOf({ isTransient }),
    );
  }
}

/**
 * Listens, and again whenever the runtime stops listening, which happens when the
 * process is out of file descriptors.
 * @throws {OperatorError} if this is impossible
 */
export function listen(listening: Listening, handler: Handler, log: Log) {
  const { host, port, tls } = listening;
  const options = { hostname: host, port, ...tls, onListen() {} };
  let server = orListenFailure(listening, () => Deno.serve(options, handler));
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
