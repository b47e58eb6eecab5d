import { SYSTEM_CLOCK } from "../clock.ts";
import type { Config } from "../config/settings.ts";
import { generateToken } from "../config/tokens.ts";
import { printBanner } from "../console/banner.ts";
import { importAdvice, nameOf, storeFailure } from "../console/failures.ts";
import { listenFailure } from "../console/listen_failure.ts";
import { reloadOnHangup } from "../http/reload.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { HttpServer, tryToListen } from "../http/server.ts";
import { CHECK_MS, REPLIES_MS_MAX, RESCUE_RETRY_MS } from "../limits.ts";
import { createService, type ServiceConfig } from "../service.ts";
import type { KvStore } from "../store/kv_store.ts";
import { openStore } from "../store/open.ts";
import { Log } from "../telemetry/log.ts";

const RETRY_S = RESCUE_RETRY_MS / 1000;

/**
 * Runs the service until a signal stops it.
 * @returns the exit status
 * @throws {OperatorError} if it cannot start or continue to listen
 */
export async function serve(config: Config): Promise<number> {
  const stop = stopSignal();
  const log = new Log(config.logFormat);
  logUnhandledErrors(log);
  const generatedToken = config.tokens.length > 0 ? undefined : generateToken();
  const tokens = new AcceptedTokens(
    generatedToken === undefined ? config.tokens : [generatedToken],
  );
  reloadOnHangup(config.tokenFile, tokens, log);

  // Before the store: a start that cannot listen creates none.
  orListenFailure(config, () => tryToListen(config));
  const store = await Promise.race([
    openStore(config.store).catch((error) => {
      throw storeFailure("store plants in", config.store, error);
    }),
    stop.then(() => undefined),
  ]);
  // The signal came first.
  if (store === undefined) return 0;
  try {
    await run(config, { store, tokens, log, generatedToken }, stop);
  } finally {
    store.close();
  }
  log.info("stopped", "stopped");
  return 0;
}

/** The parts that a start has prepared. */
interface Prepared {
  readonly store: KvStore;
  readonly tokens: AcceptedTokens;
  readonly log: Log;
  /** `undefined` if tokens are configured. */
  readonly generatedToken: string | undefined;
}

/**
 * Answers requests until a signal, and then those that are running.
 * @throws {OperatorError} if it cannot start or continue to listen
 */
async function run(
  config: Config,
  { store, tokens, log, generatedToken }: Prepared,
  stop: Promise<Deno.Signal>,
): Promise<void> {
  const server: HttpServer = orListenFailure(
    config,
    // No request arrives before this function waits.
    () =>
      new HttpServer(
        config,
        (request) => service.handler.handle(request),
        log,
        SYSTEM_CLOCK,
      ),
  );
  const baseUrl = config.baseUrl ?? server.origin;
  const reports = reportsTo(log, store, nameOf(config.store));
  const service = createService(
    store,
    { tokens, log, baseUrl, reports },
    SYSTEM_CLOCK,
  );
  const checking = setInterval(() => service.check(), CHECK_MS);
  printBanner(log, config, {
    address: server.address,
    baseUrl,
    isNewStore: store.isNew,
    generatedToken,
  });

  try {
    const signal = await Promise.race([stop, server.failed]);
    log.info("stopping", `${signal}: draining`);
  } catch (error) {
    throw listenFailure(config, error);
  } finally {
    const closed = server.shutdown();
    await service.handler.drain();
    // A client that never completes its request keeps its connection open.
    await Promise.race([closed, SYSTEM_CLOCK.sleep(REPLIES_MS_MAX)]);
    await service.finish();
    clearInterval(checking);
  }
}

/** Calls a function. @throws {OperatorError} if the runtime cannot listen */
function orListenFailure<Result>(config: Config, listen: () => Result): Result {
  try {
    return listen();
  } catch (error) {
    throw listenFailure(config, error);
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

/** Logs what the operator needs to know about the store. */
function reportsTo(
  log: Log,
  store: KvStore,
  name: string,
): ServiceConfig["reports"] {
  return {
    storeFailing(problem) {
      const isLost = store.files?.loss !== undefined;
      const next = isLost
        ? ": saving its plants: a kill or a second signal loses them"
        : "";
      log.error("store failing", `the store fails: ${name}: ${problem}${next}`);
    },
    storeRecovered() {
      log.info("store recovered", "the store has recovered");
    },
    plantsSaved({ path, plants, foreign, isDamaged, unsynced }) {
      const which = isDamaged ? "the plants before the damage" : "all plants";
      const others = foreign === 0 ? "" : `, other entries lost: ${foreign}`;
      const warning = unsynced === undefined ? "" : `, ${unsynced}`;
      log.error(
        "plants saved",
        `saved ${which} (${plants}) in ${path}${others}${warning}: ` +
          importAdvice(path, name, isDamaged ? "restore a backup, " : ""),
      );
    },
    plantsNotSaved(path, problem) {
      log.error(
        "plants not saved",
        `cannot save the plants in ${path}: ${problem}: correct this while ` +
          `the service runs: it tries again every ${RETRY_S} s, and stops ` +
          "only when they are saved",
      );
    },
  };
}
