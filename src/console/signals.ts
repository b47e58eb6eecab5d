import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { EXIT_FAILURE } from "../operator_error.ts";

/**
 * Signals this soon after the first one count as the same: `deno task` forwards
 * the SIGINT of a terminal, which the program receives as well.
 */
const SAME_SIGNAL_MS_MAX = 500;

/**
 * Listens for the signals that stop the service. Without a listener, process 1
 * of a container ignores them.
 * @returns the first signal; a later one ends the process at once
 */
export function stopSignal(clock: Clock = SYSTEM_CLOCK): Promise<Deno.Signal> {
  const { promise, resolve } = Promise.withResolvers<Deno.Signal>();
  let firstMs: number | undefined;
  function stop(signal: Deno.Signal): void {
    const nowMs = clock();
    firstMs ??= nowMs;
    if (nowMs - firstMs > SAME_SIGNAL_MS_MAX) Deno.exit(EXIT_FAILURE);
    resolve(signal);
  }
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => stop(signal));
  }
  // The terminal sends SIGHUP when it closes. That also reloads the tokens, as every
  // SIGHUP does, which is of no use then, and does no harm.
  if (Deno.stderr.isTerminal()) {
    Deno.addSignalListener("SIGHUP", () => {
      if (!Deno.stderr.isTerminal()) stop("SIGHUP");
    });
  }
  return promise;
}
