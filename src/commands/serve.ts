import { SYSTEM_CLOCK } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { printBanner } from "../console/banner.ts";
import { explain, nameOf, storeFailure } from "../console/failures.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { clientOriginOf } from "../http/origin.ts";
import { listen, tryToListen } from "../http/server.ts";
import { CHECK_MS, REPLIES_MS_MAX } from "../limits.ts";
import { createService } from "../service.ts";
import { openStore } from "../store/open.ts";
import type { StoreError } from "../store_error.ts";
import { Log } from "../telemetry/log.ts";
import { reload } from "./reload.ts";

/**
 * Runs the service until a signal stops it.
 * @returns the exit status
 * @throws {OperatorError} if it cannot start
 */
export async function serve(config: Config): Promise<number> {
  const stop = stopSignal();
  const log = new Log(config.logFormat);
  logUnhandledErrors(log);
  const generatedToken = config.tokens.length > 0
    ? undefined
    : crypto.randomUUID();
  const tokens = new AcceptedTokens(
    generatedToken === undefined ? config.tokens : [generatedToken],
  );
  // Needed without a file too: the default action of SIGHUP ends the process.
  Deno.addSignalListener(
    "SIGHUP",
    () => reload(config.tokenFile, tokens, log),
  );

  // Before the store: a start that cannot listen creates none.
  tryToListen(config);
  const opened = openStore(config.store).catch((error) => {
    throw storeFailure("store plants in", config.store, error);
  });
  const store = await Promise.race([opened, stop.then(() => undefined)]);
  if (store === undefined) return 0;
  try {
    const server = listen(
      config,
      // No request arrives before this function waits.
      (request) => service.handler.handle(request),
      log,
    );
    const baseUrl = config.baseUrl ?? clientOriginOf(server.address);
    const service = createService(store, {
      tokens,
      log,
      baseUrl,
      report: (error) => logHealth(error, config, log),
    }, SYSTEM_CLOCK);
    const checking = setInterval(() => service.check(), CHECK_MS);
    printBanner(log, config, {
      address: server.address,
      baseUrl,
      isNewStore: store.isNew,
      generatedToken,
    });

    log.info("stopping", `${await stop}: draining`);
    const closed = server.shutdown();
    await service.handler.drain();
    // A client that never completes its request keeps its connection open.
    await Promise.race([closed, SYSTEM_CLOCK.sleep(REPLIES_MS_MAX)]);
    service.check();
    clearInterval(checking);
  } finally {
    store.close();
  }
  log.info("stopped", "stopped");
  return 0;
}

/** What to do about a lost store, while this process can still read all of it. */
const KEEP_RUNNING =
  "this process still has it open: do not restart it before " +
  "the files are put back or copied, see the handbook";

/** Logs that the store has started to fail, or that it works again. */
function logHealth(
  error: StoreError | undefined,
  { store }: Config,
  log: Log,
): void {
  if (error === undefined) {
    log.info("store recovered", "the store has recovered");
  } else {
    const problem = `${nameOf(store)}: ${explain(error, store)}`;
    const next = error.kind === "lost" ? `: ${KEEP_RUNNING}` : "";
    log.error("store failing", `the store fails: ${problem}${next}`);
  }
}

/** Logs unhandled errors, which would otherwise end the process. */
function logUnhandledErrors(log: Log): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.internalError(event.reason);
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    log.internalError(event.error);
  });
}
