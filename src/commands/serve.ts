import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config/settings.ts";
import { printBanner } from "../console/banner.ts";
import { importAdvice, nameOf, openForCreates } from "../console/failures.ts";
import { listenFailure } from "../console/listen_failure.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { RequestHandler } from "../http/handler.ts";
import { HttpServer, tryToListen } from "../http/server.ts";
import { CHECK_MS, REPLIES_MS_MAX, RESCUE_RETRY_MS } from "../limits.ts";
import { Committer, SYSTEM_CLOCK } from "../store/committer.ts";
import { StoreHealth } from "../store/health.ts";
import type { KvStore } from "../store/kv_store.ts";
import { Rescue } from "../store/rescue.ts";
import { Log } from "../telemetry/log.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { generateToken, reloadOnHangup } from "./tokens.ts";

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
    openForCreates(config.store),
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
  const metrics = new Metrics();
  const name = nameOf(config.store);
  const health = new StoreHealth(
    store,
    (problem) => logHealth(log, name, problem),
  );
  const rescue = prepareRescue(store, name, log);
  const committer = new Committer(store, {
    committed(seconds, plants) {
      metrics.commit(seconds, plants);
      health.committed(seconds);
    },
    failed: (problem) => health.failed(problem),
  });
  const server: HttpServer = orListenFailure(
    config,
    // No request arrives before this function waits.
    () => new HttpServer(config, (request) => handler.handle(request), log),
  );
  const baseUrl = config.baseUrl ?? server.origin;
  const handler = new RequestHandler(
    { tokens, committer, health, log, metrics, baseUrl },
  );
  const checking = setInterval(() => {
    handler.expire();
    committer.expire();
    health.check();
    rescue.check();
  }, CHECK_MS);
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
    await handler.drain();
    // A client that never completes its request keeps its connection open.
    await Promise.race([closed, sleep(REPLIES_MS_MAX)]);
    // The last accident may be newer than the last check.
    health.check();
    await rescue.finish();
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

/** Logs when the store starts to fail, and when it has recovered. */
function logHealth(log: Log, name: string, problem: string | undefined): void {
  if (problem === undefined) {
    log.info("store recovered", "the store has recovered");
  } else log.error("store failing", `the store fails: ${name}: ${problem}`);
}

/** Prepares to save the plants of a lost store, and to log where they are. */
function prepareRescue(store: KvStore, name: string, log: Log): Rescue {
  return new Rescue(store, {
    saved(path, plants, foreign, unsynced) {
      const others = foreign === 0 ? "" : `, other entries lost: ${foreign}`;
      const warning = unsynced === undefined ? "" : `, ${unsynced}`;
      log.error(
        "plants saved",
        `saved all plants (${plants}) in ${path}${others}${warning}: ` +
          importAdvice(path, name),
      );
    },
    failed(path, problem) {
      log.error(
        "plants not saved",
        `cannot save the plants in ${path}: ${problem}: correct this while ` +
          `the service runs, which tries again every ${RETRY_S} s, and stops ` +
          "only when they are saved",
      );
    },
  }, SYSTEM_CLOCK);
}
