import { SYSTEM_CLOCK } from "../clock.ts";
import type { Config, StoreSetting } from "../config/settings.ts";
import { generateToken } from "../config/tokens.ts";
import { printBanner } from "../console/banner.ts";
import {
  describe,
  explain,
  nameOf,
  shellCommand,
  storeFailure,
} from "../console/failures.ts";
import { listenFailure } from "../console/listen_failure.ts";
import { reloadOnHangup } from "../http/reload.ts";
import { stopSignal } from "../console/signals.ts";
import { AcceptedTokens } from "../http/auth.ts";
import { HttpServer, tryToListen } from "../http/server.ts";
import { CHECK_MS, REPLIES_MS_MAX, RESCUE_RETRY_MS } from "../limits.ts";
import { OperatorError } from "../operator_error.ts";
import { createService, type ServiceConfig } from "../service.ts";
import type { KvStore } from "../store/kv_store.ts";
import { hasFixedWalReset, sqliteVersion } from "../store/files/sqlite.ts";
import { openStore } from "../store/open.ts";
import { findRescued, type Rescued } from "../store/rescue.ts";
import { Log } from "../telemetry/log.ts";

const RETRY_S = RESCUE_RETRY_MS / 1000;

/** Interval between two log entries about what a stop waits for. */
const STOP_REPORT_MS = 10_000;

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
  refuseRescued(config.store);
  const store = await Promise.race([
    openStore(config.store).catch((error) => {
      throw storeFailure("store plants in", config.store, error);
    }),
    stop.then(() => undefined),
  ]);
  // The signal came first.
  if (store === undefined) return 0;
  if (config.store.kind === "file") warnOfOldSqlite(log);
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
  const reports = reportsTo(log, config.store);
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
    const waiting = setInterval(
      () => log.info("stopping", "saving the plants of the lost store"),
      STOP_REPORT_MS,
    );
    await service.finish();
    clearInterval(waiting);
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

/** Logs that this SQLite can corrupt a store that several processes use. */
function warnOfOldSqlite(log: Log): void {
  const version = sqliteVersion();
  if (hasFixedWalReset(version)) return;
  log.warn(
    "old SQLite",
    `SQLite ${version} can corrupt the store if another process uses it, too, ` +
      "such as an instance, an import or Litestream: use Deno 2.9.6 or later",
  );
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

/**
 * Refuses a start beside the plants of a lost store, since they may not be in
 * the store.
 * @throws {OperatorError}
 */
function refuseRescued(store: StoreSetting): void {
  if (store.kind === "server") return;
  let rescued: Rescued | undefined;
  try {
    rescued = findRescued(store.path);
  } catch (error) {
    throw storeFailure("store plants in", store, error);
  }
  if (rescued === undefined) return;
  const { path, isComplete } = rescued;
  const command = endOfRescue(rescued, store.path);
  const advice = isComplete
    ? `its plants were saved in ${path}: run, as the user of the service`
    : `its plants are being saved in ${path}: wait until the service that ` +
      "writes it has saved all plants; if it was killed, restore a backup and run";
  throw new OperatorError(
    `cannot start with ${store.path}: ${advice}: ${command}`,
  );
}

/** Returns the command after which a rescue refuses no start. */
function endOfRescue({ path, file, imported }: Rescued, store: string): string {
  const rename = shellCommand("mv", path, imported);
  return file === undefined
    ? rename
    : `${
      shellCommand("plant-store", "import", file, "--kv", store)
    } && ${rename}`;
}

/** Logs what the operator needs to know about the store. */
function reportsTo(log: Log, store: StoreSetting): ServiceConfig["reports"] {
  const name = nameOf(store);
  return {
    storeFailing(error) {
      const isSaved = error.problem === "lost" && error.kind !== "cut";
      const next = isSaved
        ? ": saving its plants: a kill or a second signal loses them"
        : "";
      const problem = explain(error, store.setting);
      log.error("store failing", `the store fails: ${name}: ${problem}${next}`);
    },
    storeRecovered() {
      log.info("store recovered", "the store has recovered");
    },
    plantsSaved(rescued, plants, foreign) {
      const others = foreign === 0 ? "" : `, other entries lost: ${foreign}`;
      log.error(
        "plants saved",
        `saved all plants (${plants}) in ${rescued.path}${others}: stop the ` +
          "service, run this command as its user, and start it again: " +
          endOfRescue(rescued, name),
      );
    },
    plantsNotSaved(error) {
      log.error(
        "plants not saved",
        `cannot save the plants: ${describe(error)}: correct this while the ` +
          `service runs, which tries again every ${RETRY_S} s`,
      );
    },
    plantsLost(error) {
      log.error(
        "plants lost",
        `cannot save the plants: ${describe(error)}: restore a backup`,
      );
    },
  };
}
