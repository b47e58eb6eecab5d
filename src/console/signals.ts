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
export function stopSignal(
  { clock = SYSTEM_CLOCK }: { readonly clock?: Clock } = {},
): Promise<Deno.Signal> {
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
  // A terminal that closes sends SIGHUP. Any other SIGHUP only reloads the tokens.
  if (Deno.stderr.isTerminal()) {
    Deno.addSignalListener("SIGHUP", () => {
      if (!Deno.stderr.isTerminal()) stop("SIGHUP");
    });
  }
  // Without a listener, they end the process at once.
  for (const signal of ["SIGALRM", "SIGUSR2"] as const) {
    Deno.addSignalListener(signal, () => {});
  }
  return promise;
}
